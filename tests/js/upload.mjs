// SPDX-License-Identifier: MIT
// Uploads a megabyte to the server of $BEAMLINE_URL; prints how much was there after each answer, and how much comes back.
import {Client} from "../../clients/js/beamline.js";

const bytes = new Uint8Array(1 << 20).map((_, i) => i % 251);
const client = new Client();
const digest = await client.blobs.upload(bytes, {progress: (done) => console.log(done)});
const back = await client.blobs.get(digest);
console.log(Buffer.compare(back, bytes) === 0 ? "the same" : "other", "bytes");
