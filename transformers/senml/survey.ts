// Scans a JSON pack before it is parsed, and limits its objects and arrays and its unknown labels.
//
// It assumes valid JSON; JSON.parse later reports it if it is not.

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
