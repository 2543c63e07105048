// The rules of SenML for every wire format: base fields, names, units, times, values and versions (RFC 8428 §4).
//
// A decoder calls beginPack, then for each record fills the pack's fields and calls resolveRecord. Rows are appended directly to
// the batch's columns; only if the pack is not `ordered` does its decoder sort it, in place at the end.

import type { Envelope } from '../envelope.ts'
import { type RecordBatch, ValueKind } from '../record-batch.ts'
import { badName, badText, badTime, badVersion, manyValues, noLabels, noValue, tooLarge, tooManyCharacters, tooManyRows } from './faults.ts'
import { charactersMax, rowsMax, rowsOfData } from './limits.ts'
import { sortByTime } from './order.ts'
import { baseLabels, Label, type Pack, valueLabels } from './record.ts'
import { secondaryUnits } from './units.ts'

const relativeTimeBelow = 2 ** 28
const defaultVersion = 10
/** RFC 9100: the default version and the bit of the feature "secondary units". */
const secondaryUnitsVersion = 26

/** Allowed characters of a name (RFC 8428 §4.5.1) by character code: 1 anywhere but first, 3 also first. */
const nameCharacters = new Uint8Array(128)
for (const character of '-:./_') nameCharacters[character.charCodeAt(0)] = 1
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789') nameCharacters[character.charCodeAt(0)] = 3

/** Whether `part` is valid in a name, at its start or later. An empty part is. */
function isNamePart(part: string, first: boolean): boolean {
  let needed = first ? 2 : 1
  for (let at = 0; at < part.length; at++) {
    const code = part.charCodeAt(at)
    if (code > 127 || (nameCharacters[code]! & needed) === 0) return false
    needed = 1
  }
  return true
}

/** Whether a text contains neither a NUL nor a lone surrogate. Most texts are short, so a loop is faster than two calls into the engine. */
function isPlainText(text: string): boolean {
  if (text.length > 64) return text.isWellFormed() && !text.includes('\0')
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0 || (code & 0xf800) === 0xd800) return text.isWellFormed() && !text.includes('\0')
  }
  return true
}

/** Resets the state for a new pack of `payloadBytes`, whose rows are appended to `batch`. */
export function beginPack(pack: Pack, envelope: Envelope, batch: RecordBatch, payloadBytes: number): void {
  pack.rowsMax = rowsMax(payloadBytes)
  pack.dataRows = 0
  pack.baseLength = 0
  pack.baseRow = 0
  pack.baseCharacters = 0
  pack.createdUs = envelope.createdUs
  pack.timeMinUs = Math.max(pack.bounds.timeMinUs, Number.MIN_SAFE_INTEGER)
  pack.timeMaxUs = Math.min(envelope.createdUs + pack.bounds.timeAheadMaxUs, Number.MAX_SAFE_INTEGER)
  pack.bn = ''
  pack.bt = 0
  pack.bu = ''
  pack.bv = 0
  pack.bs = 0
  pack.labels = 0
  pack.version = defaultVersion
  pack.inForce = 0
  pack.baseNameSafe = true
  pack.lastTimeUs = Number.NEGATIVE_INFINITY
  pack.ordered = true
  pack.firstRow = batch.records.length
  pack.known = 0
  pack.firstWaits = false
  pack.waiting = false
}

/** Applies the base fields of a record to itself and later ones. */
function takeBaseFields(pack: Pack, batch: RecordBatch, labels: number, index: number): void {
  if ((labels & (Label.bn | Label.bu)) !== 0) {
    const rows = batch.records.length - pack.firstRow
    pack.baseCharacters += (rows - pack.baseRow) * pack.baseLength
    pack.baseRow = rows
    pack.baseLength = pack.bn.length + pack.bu.length
  }
  pack.inForce |= labels & baseLabels
  if ((labels & Label.bn) !== 0) pack.baseNameSafe = (pack.known & Label.bn) !== 0 || isNamePart(pack.bn, true)
  if ((labels & ~pack.known & Label.bu) !== 0 && !isPlainText(pack.bu)) throw badText('bu', pack.bu, index)
  if ((labels & Label.bver) !== 0) {
    const version = pack.bver
    const understood = version === secondaryUnitsVersion || (Number.isInteger(version) && version >= 1 && version <= defaultVersion)
    if (!understood || (index > 0 && version !== pack.version)) throw badVersion(version, pack.version, index)
    pack.version = version
  }
}

/**
 * Resolves the record that the decoder has written into `pack` and appends its row. A record with base fields only
 * just changes the current base fields.
 *
 * @param labels the bits of the labels that were present
 * @param index the record's ordinal in the pack as received
 * @throws DecodeError
 */
export function resolveRecord(pack: Pack, batch: RecordBatch, labels: number, index: number): void {
  if ((index & sizeCheckMask) === sizeCheckMask) checkSize(pack, batch, index)
  if ((labels & baseLabels) !== 0) takeBaseFields(pack, batch, labels, index)
  if ((labels & ~baseLabels) === 0) {
    if (labels === 0) throw noLabels(index)
    return
  }
  pack.labels |= labels
  const inForce = pack.inForce

  const given = labels & valueLabels
  if ((given & (given - 1)) !== 0) throw manyValues(given, index)
  let kind: ValueKind = ValueKind.none
  let number = Number.NaN
  let content: string | Uint8Array | undefined
  if (given === Label.v || (given === 0 && (inForce & Label.bv) !== 0)) {
    kind = ValueKind.number
    number = given === 0 ? 0 + pack.bv : 0 + pack.bv + pack.v
    if (!Number.isFinite(number)) throw tooLarge('value', index)
  } else if (given === Label.vs) {
    kind = ValueKind.string
    content = pack.vs
    if ((pack.known & Label.vs) === 0 && !isPlainText(pack.vs)) throw badText('vs', pack.vs, index)
  } else if (given === Label.vb) {
    kind = ValueKind.boolean
    number = pack.vb ? 1 : 0
  } else if (given === Label.vd) {
    kind = ValueKind.data
    pack.dataRows++
    content = pack.vd
  }

  let sum = Number.NaN
  if (((labels & Label.s) | (inForce & Label.bs)) !== 0) {
    sum = (labels & Label.s) !== 0 ? 0 + pack.bs + pack.s : 0 + pack.bs
    if (!Number.isFinite(sum)) throw tooLarge('sum', index)
  } else if (kind === ValueKind.none) throw noValue(labels, index)

  const seconds = (labels & Label.t) !== 0 ? pack.bt + pack.t : pack.bt
  const roundedUs = Math.round(seconds * 1e6)
  const timeUs = seconds < relativeTimeBelow ? pack.createdUs + roundedUs : roundedUs
  if (!(timeUs >= pack.timeMinUs && timeUs <= pack.timeMaxUs)) throw badTime(timeUs, pack, index)

  let name = pack.bn
  let nameSafe = pack.baseNameSafe
  if ((labels & Label.n) !== 0) {
    nameSafe = nameSafe && ((pack.known & Label.n) !== 0 || isNamePart(pack.n, name === ''))
    name = name === '' ? pack.n : name + pack.n
  }
  if (!nameSafe || name === '') throw badName(name, index)

  let unit: string | undefined = pack.bu
  if ((labels & Label.u) !== 0) {
    unit = pack.u
    if ((pack.known & Label.u) === 0 && !isPlainText(unit)) throw badText('u', unit, index)
  }
  if (unit === '') unit = undefined

  const updateTime = (labels & Label.ut) !== 0 ? 0 + pack.ut : Number.NaN
  if (pack.version === secondaryUnitsVersion && unit !== undefined) {
    const secondary = secondaryUnits.get(unit)
    if (secondary !== undefined && (kind === ValueKind.number || !Number.isNaN(sum))) {
      unit = secondary.primary
      if (kind === ValueKind.number) number = (number * secondary.multiply) / secondary.divide + secondary.offset
      sum = 0 + (sum * secondary.multiply) / secondary.divide
      if (kind === ValueKind.number && !Number.isFinite(number)) throw tooLarge('value', index)
      if (sum === Number.POSITIVE_INFINITY || sum === Number.NEGATIVE_INFINITY) throw tooLarge('sum', index)
    }
  }

  if (index === 0 && pack.firstWaits) {
    pack.waiting = true
    pack.waitingName = name
    pack.waitingUnit = unit
    pack.waitingTimeUs = timeUs
    pack.waitingKind = kind
    pack.waitingNumber = number
    pack.waitingContent = content
    pack.waitingSum = sum
    pack.waitingUpdateTime = updateTime
    return
  }
  if (pack.waiting && timeUs >= pack.waitingTimeUs) appendWaiting(pack, batch)
  if (timeUs < pack.lastTimeUs) pack.ordered = false
  pack.lastTimeUs = timeUs
  batch.appendRecord(index, name, unit, timeUs, kind, number, content, sum, updateTime)
}

function appendWaiting(pack: Pack, batch: RecordBatch): void {
  pack.waiting = false
  pack.lastTimeUs = pack.waitingTimeUs
  batch.appendRecord(
    0,
    pack.waitingName,
    pack.waitingUnit,
    pack.waitingTimeUs,
    pack.waitingKind,
    pack.waitingNumber,
    pack.waitingContent,
    pack.waitingSum,
    pack.waitingUpdateTime,
  )
}

/** The limits of a pack are checked every this many records, and at its end. */
const sizeCheckMask = 127

function checkSize(pack: Pack, batch: RecordBatch, index: number): void {
  const rows = batch.records.length - pack.firstRow
  if (rows + (rowsOfData - 1) * pack.dataRows > pack.rowsMax) throw tooManyRows(pack.rowsMax, index)
  if (pack.baseCharacters + (rows - pack.baseRow) * pack.baseLength > charactersMax) throw tooManyCharacters(charactersMax, index)
}

/** Ends the pack: appends a row held back, and checks the limits. */
export function endPack(pack: Pack, batch: RecordBatch): void {
  if (pack.waiting) appendWaiting(pack, batch)
  checkSize(pack, batch, Math.max(0, batch.records.length - pack.firstRow - 1))
  if (!pack.ordered) sortByTime(batch.records, pack.firstRow, pack.labels | pack.inForce)
}
