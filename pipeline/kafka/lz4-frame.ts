// What is known of an LZ4 frame before it is decompressed: how long it becomes at most (lz4_Frame_format.md, lz4_Block_format.md).
//
//   frame      magic · flags · block descriptor · [content size 8] · [dictionary id 4] · header checksum · (block)… · end mark · [checksum 4]
//   flags      bit 0 dictionary id · 3 content size · 4 a checksum behind each block;   block descriptor   bits 4-6 largest block
//   block      size, highest bit: stored as it is · bytes;   size 0 is the end mark
//   sequence   token: 4 bits literals, 4 bits copy - 4, each 15 goes on in bytes until one below 255 · literals · distance 2 · …

const magic = 0x184d2204
const largestBlocks = [0, 0, 0, 0, 64 * 1024, 256 * 1024, 1024 * 1024, 4 * 1024 * 1024] as const
/** A byte that goes on with a length stands for at most 255. */
const expansionMax = 255

/**
 * What the first frame of the bytes expands to at most: by the sizes of its blocks, and counted exactly where that is above `bound`, as
 * many small blocks add up to more than they hold.
 *
 * @throws RangeError where the frame is cut, or no LZ4 frame
 */
export function lz4LengthMax(bytes: Uint8Array, bound: number): number {
  const quick = sumOfBlocks(bytes, (start, end, largest) => Math.min(largest, (end - start) * expansionMax))
  return quick <= bound ? quick : sumOfBlocks(bytes, (start, end) => blockLength(bytes, start, end))
}

function sumOfBlocks(bytes: Uint8Array, lengthOf: (start: number, end: number, largest: number) => number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (view.getUint32(0, true) !== magic) throw new RangeError('there is no magic of an LZ4 frame')
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
    if (end > bytes.length) throw new RangeError(`a block of ${end - at} bytes has ${bytes.length - at} left`)
    sum += size >= 0x80000000 ? end - at : lengthOf(at, end, largest)
    at = end + checksumBytes
  }
}

/** The bytes before the first block. */
function headBytes(flags: number): number {
  return 7 + ((flags & 0x08) === 0 ? 0 : 8) + ((flags & 0x01) === 0 ? 0 : 4)
}

/** What a compressed block expands to, by the lengths of its sequences. */
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

const prime1 = 0x9e3779b1
const prime2 = 0x85ebca77
const prime3 = 0xc2b2ae3d
const prime4 = 0x27d4eb2f
const prime5 = 0x165667b1

/**
 * The frame with the header checksum that it should have: producers of message format 0 took in the magic as well (KAFKA-3160), and
 * readers of that format never looked.
 */
export function withHeaderChecksum(bytes: Uint8Array): Uint8Array {
  if (bytes.length < 7) return bytes
  const checksumAt = headBytes(bytes[4]!) - 1
  if (checksumAt >= bytes.length) return bytes
  const mended = Uint8Array.from(bytes)
  mended[checksumAt] = (shortXxh32(bytes.subarray(4, checksumAt)) >>> 8) & 0xff
  return mended
}

/** XXH32 of fewer than 16 bytes with the seed 0 (xxHash, doc/xxhash_spec.md). */
function shortXxh32(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let hash = (prime5 + bytes.length) | 0
  let at = 0
  for (; at + 4 <= bytes.length; at += 4) hash = Math.imul(rotated(hash + Math.imul(view.getInt32(at, true), prime3), 17), prime4)
  for (; at < bytes.length; at++) hash = Math.imul(rotated(hash + Math.imul(bytes[at]!, prime5), 11), prime1)
  hash = Math.imul(hash ^ (hash >>> 15), prime2)
  hash = Math.imul(hash ^ (hash >>> 13), prime3)
  return (hash ^ (hash >>> 16)) >>> 0
}

function rotated(word: number, by: number): number {
  return (word << by) | (word >>> (32 - by))
}
