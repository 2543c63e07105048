// Packs of SenML CBOR with wrong lengths or counts: 2^32, 2^64, one too many; or of indefinite length.

import type { Random } from '../random.ts'
import { Major, openCborBytes } from './cbor-bytes.ts'
import { packOf, senmlCborPack } from './senml-cbor.ts'

const declared: readonly bigint[] = [
  2n ** 64n - 1n,
  2n ** 63n,
  2n ** 53n + 1n,
  2n ** 53n,
  2n ** 32n + 1n,
  2n ** 32n,
  2n ** 32n - 1n,
  2n ** 31n,
  2n ** 31n - 1n,
  2n ** 28n,
  2n ** 24n,
  65_536n,
  256n,
  24n,
]
const majors = [Major.bytes, Major.text, Major.array, Major.map]

/** A valid pack up to some place, where a head declares a length, and then the original content, or zeros. */
export function declaredLengths(random: Random, bytes: number): Uint8Array {
  const output = openCborBytes()
  const pack = random.oneIn(3) ? oneRecord(random, Math.max(bytes - 40, 8)) : senmlCborPack(random, Math.max(bytes - 20, 8), 1000)
  const at = random.oneIn(6) ? 0 : random.below(pack.length)
  output.raw(pack.subarray(0, at))
  const argument = random.oneIn(3) ? BigInt(pack.length - at + random.below(3)) : random.pick(declared)
  output.head(random.pick(majors), argument, random.pick([0, 0, 4, 8]))
  if (random.oneIn(3)) output.raw(new Uint8Array(pack.length - at))
  else if (random.oneIn(2)) output.raw(pack.subarray(at))
  return output.bytes()
}

/** A pack whose only record has a long text or long data. */
function oneRecord(random: Random, bytes: number): Uint8Array {
  const output = openCborBytes()
  output.raw([0xa2, 0x00, 0x61, 0x61])
  if (random.oneIn(2)) {
    output.raw([0x03])
    output.text('x'.repeat(bytes))
  } else {
    output.raw([0x08])
    output.data(new Uint8Array(bytes))
  }
  return packOf([output.bytes()])
}

/** A valid pack in which one item begins like one of indefinite length, with a break somewhere after it, or none. */
export function indefiniteLengths(random: Random, bytes: number): Uint8Array {
  const pack = senmlCborPack(random, Math.max(bytes - 2, 8), 1000)
  const heads = placesOfHeads(pack)
  const at = random.oneIn(4) ? 0 : random.pick(heads)
  const major = random.oneIn(4) ? random.below(8) : pack[at]! >> 5
  const parts: Uint8Array[] = [pack.subarray(0, at), Uint8Array.of((major << 5) | 31)]
  if (random.oneIn(2)) {
    const end = at + 1 + random.below(pack.length - at)
    parts.push(pack.subarray(at + 1, end), Uint8Array.of(0xff), pack.subarray(end))
  } else parts.push(pack.subarray(at + 1), new Uint8Array(random.below(2)).fill(0xff))
  return Uint8Array.from(Buffer.concat(parts))
}

/** Places where arrays, maps and strings with a short head may begin: similar bytes count too. */
function placesOfHeads(pack: Uint8Array): number[] {
  const places = [0]
  const length = Math.min(pack.length, 4096)
  for (let at = 1; at < length; at++) {
    const major = pack[at]! >> 5
    if (major >= Major.bytes && major <= Major.map) places.push(at)
  }
  return places
}
