// Looks over the bytes of a pack in JSON before JSON.parse makes anything of them: how many objects and arrays, and labels nobody knows.
//
// It takes for granted that the bytes are JSON: where they are not, JSON.parse says so.

import { tooManyContainers, tooManyUnknownLabels } from './faults.ts'
import { byteAt, colon, openBrace, openBracket, quote, skipSpace } from './json-tokens.ts'
import { containersMax, unknownLabelsMax } from './limits.ts'
import { labelAt } from './plain-json.ts'

const backslash = 0x5c

/** @throws DecodeError `container-count`, `label-count` */
export function survey(bytes: Uint8Array): void {
  const mostContainers = containersMax(bytes.length)
  const mostUnknown = unknownLabelsMax(bytes.length)
  let containers = 0
  let unknown = 0
  let at = 0
  while (at < bytes.length) {
    const byte = bytes[at++]!
    if (byte === quote) {
      const start = at
      while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1
      at++
      if (byteAt(bytes, skipSpace(bytes, at)) === colon && labelAt(bytes, start) === 0 && ++unknown > mostUnknown) {
        throw tooManyUnknownLabels(mostUnknown)
      }
    } else if (byte === openBracket || byte === openBrace) {
      if (++containers > mostContainers) throw tooManyContainers(mostContainers)
    }
  }
}
