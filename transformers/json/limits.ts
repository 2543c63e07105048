// How much a payload of JSON documents may hold.

/** 256 KiB. */
export const payloadBytesMaxDefault = 262_144
/** Levels of objects and arrays, the root included. */
export const depthMax = 64
/** Keys of all objects together. */
export const keysMax = 10_000
/**
 * Objects and arrays together. An empty one is three bytes in a payload, and up to 91 in memory with its row: so their number goes by the
 * size of the payload, which what is made of it may take 8 times, and a mebibyte besides. 16,384 in 256 KiB.
 */
export function containersMax(payloadBytes: number): number {
  return 8192 + (payloadBytes >> 5)
}
