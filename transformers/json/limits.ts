// Limits for a payload of JSON documents.

/** 256 KiB. */
export const payloadBytesMaxDefault = 262_144
/** Levels of objects and arrays, including the root. */
export const depthMax = 64
/** Keys of all objects together. */
export const keysMax = 10_000
/**
 * Objects and arrays together. An empty one is three bytes in a payload, but up to 91 in memory with its row. So the limit depends on the
 * size of the payload: the decoded form may take 8 times as much, plus 1 MiB. 16,384 in 256 KiB.
 */
export function containersMax(payloadBytes: number): number {
  return 8192 + (payloadBytes >> 5)
}
