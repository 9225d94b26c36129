// SPDX-License-Identifier: MIT
export {Client, Lease} from "./beamline.js";
