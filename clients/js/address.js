// SPDX-License-Identifier: MIT
// Addresses of the API.

/** The address of one resource, or of the list of a kind (no name); `rest` follows the name; query members that are undefined or false are left out. */
export function address(kind, name = undefined, rest = "", query = {}) {
  const path = `/api/v1/${kind}${name === undefined ? "" : `/${encodeURIComponent(name)}`}${rest}`;
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== false);
  return given.length > 0 ? `${path}?${new URLSearchParams(given)}` : path;
}
