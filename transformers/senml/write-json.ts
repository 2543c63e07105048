// Writes a SenML CBOR pack as SenML JSON, as it is: base fields, the order of labels, and labels that nobody knows are kept.

import { openSenmlCbor } from './cbor.ts'
import { noOtherForm, quoted } from './cbor-faults.ts'
import { digitsOfHead, head, integerOfHead, Major, readHead } from './cbor-head.ts'
import { bytes, load } from './cbor-input.ts'
import { integerOfLabel, nameOfInteger } from './cbor-labels.ts'
import { floatAt, found as foundNumber, readDecimal } from './cbor-number.ts'
import { textAt } from './cbor-text.ts'
import { anyTime, assertRight } from './right-pack.ts'

const cbor = openSenmlCbor(anyTime)

/** Where the walk through the payload stands, and in which record. */
interface Walk {
  at: number
  record: number
}

/**
 * The pack in JSON. Integer labels become names, the bytes of vd become base64url, integers keep all their digits, and other
 * numbers are written as the doubles that they are. Its times may be any.
 *
 * Under labels that nobody knows, bytes become base64url too, and what JSON has no value for becomes null (RFC 8949 §6.1).
 *
 * @param payload a pack of `application/senml+cbor`
 * @throws DecodeError where the pack breaks a rule of SenML, or `other-format` where JSON cannot say what stands in it besides
 */
export function toJson(payload: Uint8Array): string {
  assertRight(cbor, payload)
  load(payload)
  const walk = { at: readHead(0, undefined), record: 0 }
  const records: string[] = []
  for (const count = head.argument; walk.record < count; walk.record++) records.push(recordText(walk))
  return `[${records.join(',')}]`
}

function recordText(walk: Walk): string {
  walk.at = readHead(walk.at, walk.record)
  const pairs = head.argument
  const fields: string[] = []
  for (let pair = 0; pair < pairs; pair++) {
    const label = readLabel(walk)
    fields.push(`${JSON.stringify(label)}:${valueText(walk, quoted(label))}`)
  }
  return `{${fields.join(',')}}`
}

function readLabel(walk: Walk): string {
  const start = readHead(walk.at, walk.record)
  walk.at = start
  if (head.major <= Major.negative) return nameOfInteger.get(integerOfHead())!
  const label = readText(walk, start)
  // As text it is a label that nobody knows; in JSON it would be the one that it looks like.
  if (integerOfLabel.has(label)) throw noOtherForm(`${quoted(label)}, which in CBOR is one of SenML only as an integer,`, walk.record)
  return label
}

function readText(walk: Walk, start: number): string {
  walk.at = start + head.argument
  return textAt(start, walk.at, walk.record)
}

/** The JSON text of the item where the walk stands. @param where the label that it stands under, for the error */
function valueText(walk: Walk, where: string): string {
  const at = walk.at
  const start = readHead(at, walk.record)
  const { major, info, argument } = head
  walk.at = start
  if (major <= Major.negative) return digitsOfHead()
  if (major === Major.text) return JSON.stringify(readText(walk, start))
  if (major === Major.bytes) {
    walk.at = start + argument
    return JSON.stringify(Buffer.from(bytes.subarray(start, walk.at)).toString('base64url'))
  }
  if (major === Major.array) return `[${Array.from({ length: argument }, () => valueText(walk, where)).join(',')}]`
  if (major === Major.map) return `{${Array.from({ length: argument }, () => pairText(walk, where)).join(',')}}`
  if (major === Major.tag) {
    readDecimal(start, walk.record)
    walk.at = foundNumber.next
    return numberText(foundNumber.number)
  }
  if (info > 24) return numberText(floatAt(at))
  return info === 20 ? 'false' : info === 21 ? 'true' : 'null'
}

function pairText(walk: Walk, where: string): string {
  walk.at = readHead(walk.at, walk.record)
  if (head.major !== Major.text) throw noOtherForm(`a key that is no text, under ${where},`, walk.record)
  const key = readText(walk, walk.at)
  return `${JSON.stringify(key)}:${valueText(walk, where)}`
}

function numberText(number: number): string {
  if (!Number.isFinite(number)) return 'null'
  return Object.is(number, -0) ? '-0' : String(number)
}
