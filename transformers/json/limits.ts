// How much a payload of JSON documents may hold.

/** 256 KiB. */
export const payloadBytesMaxDefault = 262_144
/** Levels of objects and arrays, the root included. */
export const depthMax = 64
/** Keys of all objects together. */
export const keysMax = 10_000
/** Objects and arrays together: an empty one is three bytes in a payload and 56 in memory. */
export const containersMax = 32_768
