// The current payload, copied into a buffer of our own so that it can be read a word at a time.
//
// Measured for 280 bytes: reading the payload byte by byte takes 260 ns; copying takes 17 ns, and reading words 70 ns.
// Creating a DataView for each payload would take 75 ns.

/** Bytes that may be read beyond the payload's end without a check: the longest fixed-size item has 9. */
const padding = 16

/** A break, which no valid payload contains. */
const breakByte = 0xff

/** The payload, followed by a break. It grows to the size of the largest payload so far. */
export let bytes = new Uint8Array(2 ** 16)

/** A view of the same memory, for words and texts. */
export let view = new DataView(bytes.buffer)
export let buffer = Buffer.from(bytes.buffer)

/** Where the payload ends. */
export let end = 0

/** Loads a payload, replacing the previous one. */
export function load(payload: Uint8Array): void {
  if (payload.length + padding > bytes.length) {
    bytes = new Uint8Array(payload.length + padding)
    view = new DataView(bytes.buffer)
    buffer = Buffer.from(bytes.buffer)
  }
  bytes.set(payload)
  end = payload.length
  bytes[end] = breakByte
}
