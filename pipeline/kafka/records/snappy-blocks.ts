// Splits Snappy data into blocks and bounds the decompressed size of each before decompression (google/snappy format_description.txt).
//
//   stream of Java   0x82 "SNAPPY" 0x00 · version int32 · compatible int32 · (length int32 · block)…     (xerial/snappy-java)
//   any other        one block
//   block            expanded length varint · elements: literals, and copies of 1 to 64 bytes in 2, 3 or 5

const javaMagic = Buffer.from('\x82SNAPPY\0', 'latin1')
const javaHeadBytes = 16

/** A copy of 64 bytes takes 3. */
const expansionMax = 64 / 3
const lengthBytesMax = 5

/** The blocks of a Java stream, or the bytes as a single block. @throws RangeError if a block is cut off */
export function snappyBlocks(bytes: Uint8Array): Uint8Array[] {
  if (javaMagic.compare(bytes, 0, Math.min(javaMagic.length, bytes.length)) !== 0) return [bytes]
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const blocks: Uint8Array[] = []
  let at = javaHeadBytes
  while (at < bytes.length) {
    const length = view.getInt32(at)
    at += 4
    if (length < 0 || length > bytes.length - at) throw new RangeError(`a block of ${length} bytes, but only ${bytes.length - at} left`)
    blocks.push(bytes.subarray(at, at + length))
    at += length
  }
  return blocks
}

/** The declared decompressed size of a block. @throws RangeError if that is impossible */
export function snappyLength(block: Uint8Array): number {
  let length = 0
  let factor = 1
  for (let at = 0; at < lengthBytesMax; at++) {
    const byte = block[at]
    if (byte === undefined) break
    length += (byte & 0x7f) * factor
    factor *= 128
    if (byte > 0x7f) continue
    if (length > block.length * expansionMax) throw new RangeError(`a block of ${block.length} bytes cannot expand to ${length}`)
    return length
  }
  throw new RangeError('a block has no length')
}
