// Bounds the decompressed size of an LZ4 frame before it is decompressed (lz4_Frame_format.md, lz4_Block_format.md).
//
//   frame      magic · flags · block descriptor · [content size 8] · [dictionary id 4] · header checksum · (block)… · end mark · [checksum 4]
//   flags      bit 0 dictionary id · 3 content size · 4 a checksum after each block;   block descriptor   bits 4-6 largest block
//   block      size, highest bit: uncompressed · bytes;   size 0 is the end mark
//   sequence   token: 4 bits literals, 4 bits copy - 4, a value of 15 continues in bytes until one below 255 · literals · distance 2 · …

const magic = 0x184d2204
const largestBlocks = [0, 0, 0, 0, 64 * 1024, 256 * 1024, 1024 * 1024, 4 * 1024 * 1024] as const
/** Each further byte of a length adds at most 255. */
const expansionMax = 255

/**
 * Upper bound of the first frame's decompressed size: estimated from the sizes of its blocks, and computed exactly if the estimate is above `bound`, because
 * it is far too high for many small blocks.
 *
 * @throws RangeError if the frame is cut off, or not an LZ4 frame
 */
export function lz4LengthMax(bytes: Uint8Array, bound: number): number {
  const quick = sumOfBlocks(bytes, (start, end, largest) => Math.min(largest, (end - start) * expansionMax))
  return quick <= bound ? quick : sumOfBlocks(bytes, (start, end) => blockLength(bytes, start, end))
}

function sumOfBlocks(bytes: Uint8Array, lengthOf: (start: number, end: number, largest: number) => number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (view.getUint32(0, true) !== magic) throw new RangeError('the magic number of an LZ4 frame is missing')
  const flags = view.getUint8(4)
  const largest = largestBlocks[(view.getUint8(5) >> 4) & 7]!
  const checksumBytes = (flags & 0x10) === 0 ? 0 : 4
  let at = headBytes(flags)
  let sum = 0
  while (true) {
    const size = view.getUint32(at, true)
    at += 4
    if (size === 0) return sum
    const end = at + (size & 0x7fffffff)
    if (end > bytes.length) throw new RangeError(`a block of ${end - at} bytes, but only ${bytes.length - at} left`)
    sum += size >= 0x80000000 ? end - at : lengthOf(at, end, largest)
    at = end + checksumBytes
  }
}

/** The bytes before the first block. */
function headBytes(flags: number): number {
  return 7 + ((flags & 0x08) === 0 ? 0 : 8) + ((flags & 0x01) === 0 ? 0 : 4)
}

/** The decompressed size of a block, from the lengths of its sequences. */
function blockLength(bytes: Uint8Array, start: number, end: number): number {
  let at = start
  let sum = 0
  while (at < end) {
    const token = bytes[at++]!
    let literals = token >> 4
    if (literals === 15) {
      let more: number
      do {
        more = bytes[at++] ?? 0
        literals += more
      } while (more === 255)
    }
    sum += literals
    at += literals + 2
    if (at >= end) return sum
    let copied = (token & 15) + 4
    if (copied === 19) {
      let more: number
      do {
        more = bytes[at++] ?? 0
        copied += more
      } while (more === 255)
    }
    sum += copied
  }
  return sum
}
