// SPDX-License-Identifier: MIT
// Addresses of the API.

/** The address of a thing by kind and name, or of all of the kind, with what follows the name and the members of the query that are given. */
export function address(kind, name = undefined, rest = "", query = {}) {
  const path = `/api/v1/${kind}${name === undefined ? "" : `/${encodeURIComponent(name)}`}${rest}`;
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== false);
  return given.length > 0 ? `${path}?${new URLSearchParams(given)}` : path;
}
