// Limits for a pack, so that even an undecodable one takes at most 8 times its size plus 1 MiB of memory.

/**
 * Rows of one pack. A CBOR record has at least three bytes, but takes up to 140 in memory. So the limit depends on the size of the
 * payload. 16,384 in 256 KiB.
 */
export function rowsMax(payloadBytes: number): number {
  return 8192 + (payloadBytes >> 5)
}

/** Weight of a row with data, whose separate byte array takes 250 bytes more. */
export const rowsOfData = 3

/** Objects and arrays of a JSON pack, checked before parsing: an empty one is three bytes of text, but 64 in memory. 16,384 in 256 KiB. */
export const containersMax = rowsMax

/** Unknown labels of a JSON pack: if they differ, each takes up to 200 bytes. 8,192 in 256 KiB. */
export function unknownLabelsMax(payloadBytes: number): number {
  return 4096 + (payloadBytes >> 6)
}

/** Total characters of repeated base names and units, which could make the rows far larger than the pack. */
export const charactersMax = 2 ** 20
