// The version of a pack's resolved records (RFC 8428 §4.6), which rows do not store.

import { parseExactKeys } from '../json/exact-json.ts'
import { head, integerOfHead, Major, readHead } from './cbor/head.ts'
import { passOver } from './cbor/ignored.ts'
import { load } from './cbor/input.ts'
import { integerOfLabel } from './cbor/labels.ts'

/** The version of a pack without bver (RFC 8428 §4.4). */
const defaultVersion = 10
/** Its only feature, secondary units, is no longer used after they were converted to primary ones (RFC 9100). */
const secondaryUnitsVersion = 26

const utf8 = new TextDecoder('utf-8')

/** The bver of the resolved records of a valid `application/senml+json` pack; 10 is not written. */
export function resolvedVersionOfJson(payload: Uint8Array): number {
  const [first] = parseExactKeys(utf8.decode(payload)) as { bver?: number }[]
  return onceResolved(first?.bver ?? defaultVersion)
}

/** The bver of the resolved records of a valid `application/senml+cbor` pack; 10 is not written. */
export function resolvedVersionOfCbor(payload: Uint8Array): number {
  load(payload)
  let at = readHead(readHead(0, undefined), 0)
  for (let pairs = head.argument; pairs > 0; pairs--) {
    const value = readHead(at, 0)
    if (head.major <= Major.negative && integerOfHead() === integerOfLabel.get('bver')) {
      readHead(value, 0)
      return onceResolved(head.argument)
    }
    at = passOver(passOver(at, 3, 0), 3, 0)
  }
  return defaultVersion
}

function onceResolved(version: number): number {
  return version === secondaryUnitsVersion ? defaultVersion : version
}
