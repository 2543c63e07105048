// How much a pack may hold, so that an undecodable one never takes more memory than 8 times its size and 1 MiB.

/**
 * Rows of one pack. A record of CBOR is three bytes at the least, and up to 140 in memory: so their number goes by the size of the
 * payload. 16,384 in 256 KiB.
 */
export function rowsMax(payloadBytes: number): number {
  return 8192 + (payloadBytes >> 5)
}

/** A row with data counts as so many: bytes of their own take 250 more. */
export const rowsOfData = 3

/** Objects and arrays of a pack in JSON, before any is made: an empty one is three bytes there, and 64 in memory. 16,384 in 256 KiB. */
export const containersMax = rowsMax

/** Labels of a pack in JSON that nobody knows: where they differ, each takes up to 200 bytes. 8,192 in 256 KiB. */
export function unknownLabelsMax(payloadBytes: number): number {
  return 4096 + (payloadBytes >> 6)
}

/** Of the base names and units that rows repeat, together: they could make the rows far larger than the pack. */
export const charactersMax = 2 ** 20
