// Decodes SenML CBOR, `application/senml+cbor` (RFC 8428 §6), into the fields of each record. The rules of SenML are in resolve.ts.
//
//   pack     array of records, of definite length
//   record   map of labels, of definite length: the integers of labels.ts; any other label is text, and ignored
//   value    text string, number, boolean or byte string, depending on the label
//
// Lengths declared in the payload never determine an allocation.

import type { RecordBatch } from '../../record-batch.ts'
import type { Transformer } from '../../transformer.ts'
import { emptyPack, mustUnderstand } from '../faults.ts'
import { defaultTimeBounds, Label, openPack, type Pack, type TimeBounds } from '../record.ts'
import { beginPack, endPack, resolveRecord } from '../resolve.ts'
import {
  duplicateKey,
  labelKind,
  notUtf8,
  onlyTextLabels,
  quoted,
  recordNotMap,
  rootNotPack,
  trailingBytes,
  unknownInteger,
  versionNotUnsigned,
  wrongItem,
} from './faults.ts'
import { endOfString, head, integerOfHead, Major, readHead } from './head.ts'
import { passOver } from './ignored.ts'
import { bytes, end, load, view } from './input.ts'
import { addKey, clearKeys, openKeys } from './keys.ts'
import { bitOfByte, bitOfInteger, nameOfBit } from './labels.ts'
import { found as foundNumber, readNumber } from './number.ts'
import { found as foundText, isUtf8, Known, knownBytesMax, readText, shortTextAt, textAt } from './text.ts'

const nameLabels = Label.bn | Label.n
const textLabels = Label.n | Label.u | Label.vs | Label.bn | Label.bu
const numberLabels = Label.v | Label.s | Label.t | Label.ut | Label.bt | Label.bv | Label.bs

/** Shared, because creating an empty array is slow. */
const noData = new Uint8Array(0)

const underscore = '_'.charCodeAt(0)

/** The unknown labels of the current record. */
const unknownLabels = openKeys()

/** The bit of the label that `readLabel` read last, or 0 if it is ignored. */
let foundLabel = 0

/**
 * Opens a transformer of SenML CBOR packs. A pack is all or nothing: one invalid record makes it fail.
 *
 * @param bounds allowed times of records; by default from 2^28 s to 366 days after the message was received
 */
export function openSenmlCbor(bounds: Partial<TimeBounds> = {}): Transformer {
  const pack = openPack({ ...defaultTimeBounds, ...bounds })
  return {
    decode(payload, envelope, batch) {
      load(payload)
      beginPack(pack, envelope, batch, payload.length)
      readPack(pack, batch)
      endPack(pack, batch)
    },
  }
}

function readPack(pack: Pack, batch: RecordBatch): void {
  let at = readHead(0, undefined)
  const { major, argument: count } = head
  if (major !== Major.array) throw rootNotPack(bytes[0]!)
  if (count === 0) throw emptyPack()
  pack.firstWaits = count > 1
  for (let index = 0; index < count; index++) {
    let pairs = bytes[at]! - 0xa0
    if (pairs >= 0 && pairs < 24) {
      at++
    } else {
      const next = readHead(at, index)
      const { major, argument } = head
      if (major !== Major.map) throw recordNotMap(bytes[at]!, index)
      pairs = argument
      at = next
    }
    at = readRecord(pack, at, pairs, index, batch)
  }
  if (at !== end) throw trailingBytes(end - at)
}

/** Reads the pairs of a record into the fields of `pack` and resolves it. Returns the index after them. */
function readRecord(pack: Pack, start: number, pairs: number, index: number, batch: RecordBatch): number {
  let at = start
  let labels = 0
  let strangeKeys = 0
  pack.known = 0
  for (let pair = 0; pair < pairs; pair++) {
    let label = bitOfByte[bytes[at]!]!
    if (label !== 0) {
      at++
    } else {
      if (strangeKeys++ === 0) clearKeys(unknownLabels)
      at = readLabel(at, index)
      label = foundLabel
      if (label === 0) {
        at = passOver(at, 3, index)
        continue
      }
    }
    if ((labels & label) !== 0) throw duplicateKey(nameOfBit(label), index)
    labels |= label
    if ((label & textLabels) !== 0) at = readTextField(pack, label, at, index)
    else if ((label & numberLabels) !== 0) at = readNumberField(pack, label, at, index)
    else at = readOtherField(pack, label, at, index)
  }
  if (labels === 0 && pairs > 0) throw onlyTextLabels(index)
  resolveRecord(pack, batch, labels, index)
  return at
}

/** Reads a key that is not a label in its shortest form. Returns the index after it. */
function readLabel(at: number, index: number): number {
  const start = readHead(at, index)
  if (head.major <= Major.negative) {
    const integer = integerOfHead()
    foundLabel = bitOfInteger(integer)
    if (foundLabel === 0) throw unknownInteger(integer, index)
    return start
  }
  if (head.major !== Major.text) throw labelKind(bytes[at]!, index)
  const next = endOfString(start, index)
  if (!isUtf8(start, next)) throw notUtf8(index)
  if (next > start && bytes[next - 1] === underscore) throw mustUnderstand(textAt(start, next, index), index)
  if (!addKey(unknownLabels, at, next)) throw duplicateKey(quoted(textAt(start, next, index)), index)
  foundLabel = 0
  return next
}

/** Reads the value of n, u, vs, bn or bu. Short lengths are read directly, others through their head. */
function readTextField(pack: Pack, label: number, at: number, index: number): number {
  const lead = bytes[at]!
  let start = at + 1
  let length = lead - 0x60
  if (lead === 0x78) {
    length = bytes[start]!
    start++
  }
  let text: string
  let next = start + length
  if (lead >= 0x60 && lead <= 0x78 && length <= knownBytesMax && next <= end) {
    text = shortTextAt(start, length, index)
    if ((foundText.known & ((label & nameLabels) !== 0 ? Known.name : Known.plain)) !== 0) pack.known |= label
  } else {
    text = readText(at, label, index)
    next = foundText.next
  }
  switch (label) {
    case Label.n:
      pack.n = text
      break
    case Label.u:
      pack.u = text
      break
    case Label.vs:
      pack.vs = text
      break
    case Label.bn:
      pack.bn = text
      break
    default:
      pack.bu = text
  }
  return next
}

/** Reads the value of v, t, s, ut, bt, bv or bs. Small integers and doubles are read directly, other numbers through their head. */
function readNumberField(pack: Pack, label: number, at: number, index: number): number {
  const lead = bytes[at]!
  let number = lead
  let next = at + 1
  if (lead >= 24) {
    if (lead === 0xfb) {
      number = view.getFloat64(next)
      next += 8
    } else {
      number = lead >= 0x20 && lead < 0x38 ? 0x1f - lead : Number.NaN
    }
    // Subtracting a non-finite number from itself does not give zero.
    if (number - number !== 0 || next > end) {
      readNumber(at, label, index)
      number = foundNumber.number
      next = foundNumber.next
    }
  }
  switch (label) {
    case Label.v:
      pack.v = number
      break
    case Label.t:
      pack.t = number
      break
    case Label.s:
      pack.s = number
      break
    case Label.ut:
      pack.ut = number
      break
    case Label.bt:
      pack.bt = number
      break
    case Label.bv:
      pack.bv = number
      break
    default:
      pack.bs = number
  }
  return next
}

/** Reads the value of vb, vd or bver. */
function readOtherField(pack: Pack, label: number, at: number, index: number): number {
  const next = readHead(at, index)
  const { major, info, argument } = head
  if (label === Label.vb) {
    if (major !== Major.other || (info !== 20 && info !== 21)) throw wrongItem(label, 'a boolean', bytes[at]!, index)
    pack.vb = info === 21
    return next
  }
  if (label === Label.bver) {
    if (major !== Major.unsigned) throw versionNotUnsigned(bytes[at]!, index)
    pack.bver = argument
    return next
  }
  if (major !== Major.bytes) throw wrongItem(label, 'a byte string', bytes[at]!, index)
  const dataEnd = endOfString(next, index)
  // Copied, because the batch keeps it.
  pack.vd = next === dataEnd ? noData : bytes.slice(next, dataEnd)
  return dataEnd
}
