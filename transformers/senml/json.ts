// Decodes SenML JSON, `application/senml+json` (RFC 8428 §5), into the fields of each record. The rules of SenML are in resolve.ts.

import { DecodeError } from '../decode-error.ts'
import { syntaxReason } from '../excerpt.ts'
import { parseExactKeys } from '../json/exact-json.ts'
import type { RecordBatch } from '../record-batch.ts'
import type { Transformer } from '../transformer.ts'
import { base64urlBytes } from './base64url.ts'
import { badBase64url, emptyPack, mustUnderstand, recordNotObject, rootNotArray, wrongType } from './faults.ts'
import { readPlainPack } from './plain-json.ts'
import { defaultTimeBounds, Label, openPack, type Pack, type TimeBounds } from './record.ts'
import { beginPack, endPack, resolveRecord } from './resolve.ts'
import { survey } from './survey.ts'

/** Drops a leading byte-order mark, as JSON parsers may (RFC 8259 §8.1). */
const utf8 = new TextDecoder('utf-8', { fatal: true })

const underscore = '_'.charCodeAt(0)

function decodeText(payload: Uint8Array): string {
  try {
    return utf8.decode(payload)
  } catch (cause) {
    throw new DecodeError('utf-8', 'the payload is not UTF-8', { hint: 'SenML must be UTF-8: encode the text as UTF-8', cause })
  }
}

function parseJson(text: string): unknown {
  try {
    return parseExactKeys(text)
  } catch (cause) {
    throw new DecodeError('json-syntax', `the payload is not JSON: ${syntaxReason(cause)}`, { hint: 'check it with a JSON parser', cause })
  }
}

function readData(value: string, index: number): Uint8Array {
  const data = base64urlBytes(value)
  if (data === undefined) throw badBase64url(index)
  return data
}

/**
 * Writes the fields of a record into `pack` and returns the bits of the labels that were present.
 * Of duplicate labels, JSON.parse keeps the last. It also makes `__proto__` an ordinary key: here a label that
 * ends in `_`.
 */
function readRecord(pack: Pack, record: Record<string, unknown>, index: number): number {
  let labels = 0
  for (const label in record) {
    const value = record[label]
    switch (label) {
      case 'n':
        if (typeof value !== 'string') throw wrongType(label, 'string', value, index)
        pack.n = value
        labels |= Label.n
        break
      case 'u':
        if (typeof value !== 'string') throw wrongType(label, 'string', value, index)
        pack.u = value
        labels |= Label.u
        break
      case 'v':
        if (!isNumber(value)) throw wrongType(label, 'number', value, index)
        pack.v = value
        labels |= Label.v
        break
      case 't':
        if (!isNumber(value)) throw wrongType(label, 'number', value, index)
        pack.t = value
        labels |= Label.t
        break
      case 'vs':
        if (typeof value !== 'string') throw wrongType(label, 'string', value, index)
        pack.vs = value
        labels |= Label.vs
        break
      case 'vb':
        if (typeof value !== 'boolean') throw wrongType(label, 'boolean', value, index)
        pack.vb = value
        labels |= Label.vb
        break
      case 'vd':
        if (typeof value !== 'string') throw wrongType(label, 'string', value, index)
        pack.vd = readData(value, index)
        labels |= Label.vd
        break
      case 's':
        if (!isNumber(value)) throw wrongType(label, 'number', value, index)
        pack.s = value
        labels |= Label.s
        break
      case 'ut':
        if (!isNumber(value)) throw wrongType(label, 'number', value, index)
        pack.ut = value
        labels |= Label.ut
        break
      case 'bn':
        if (typeof value !== 'string') throw wrongType(label, 'string', value, index)
        pack.bn = value
        labels |= Label.bn
        break
      case 'bt':
        if (!isNumber(value)) throw wrongType(label, 'number', value, index)
        pack.bt = value
        labels |= Label.bt
        break
      case 'bu':
        if (typeof value !== 'string') throw wrongType(label, 'string', value, index)
        pack.bu = value
        labels |= Label.bu
        break
      case 'bv':
        if (!isNumber(value)) throw wrongType(label, 'number', value, index)
        pack.bv = value
        labels |= Label.bv
        break
      case 'bs':
        if (!isNumber(value)) throw wrongType(label, 'number', value, index)
        pack.bs = value
        labels |= Label.bs
        break
      case 'bver':
        if (!isNumber(value)) throw wrongType(label, 'number', value, index)
        pack.bver = value
        labels |= Label.bver
        break
      default:
        if (label.charCodeAt(label.length - 1) === underscore) throw mustUnderstand(label, index)
    }
  }
  return labels
}

/** Whether it is a finite number: `JSON.parse('1e999')` is Infinity. */
function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value)
}

/**
 * Opens a transformer of SenML JSON packs. A pack is all or nothing: one invalid record makes it fail.
 *
 * @param bounds allowed times of records; by default from 2^28 s to 366 days after the message was received
 */
export function openSenmlJson(bounds: Partial<TimeBounds> = {}): Transformer {
  const pack = openPack({ ...defaultTimeBounds, ...bounds })
  return {
    decode(payload, envelope, batch) {
      beginPack(pack, envelope, batch, payload.length)
      if (!isPlainPack(pack, payload, batch)) {
        batch.takeBack()
        beginPack(pack, envelope, batch, payload.length)
        readPack(pack, payload, batch)
      }
      endPack(pack, batch)
    },
  }
}

/** Tries the fast path; returns false if the pack needs the slow one, which also reports faults. */
function isPlainPack(pack: Pack, payload: Uint8Array, batch: RecordBatch): boolean {
  try {
    return readPlainPack(pack, payload, batch)
  } catch (error) {
    if (error instanceof DecodeError) return false
    throw error
  }
}

/** Reads any pack: the slow path. */
function readPack(pack: Pack, payload: Uint8Array, batch: RecordBatch): void {
  survey(payload)
  const root = parseJson(decodeText(payload))
  if (!Array.isArray(root)) throw rootNotArray(root)
  if (root.length === 0) throw emptyPack()
  pack.firstWaits = root.length > 1
  for (let index = 0; index < root.length; index++) {
    const record: unknown = root[index]
    if (typeof record !== 'object' || record === null || Array.isArray(record)) throw recordNotObject(record, index)
    resolveRecord(pack, batch, readRecord(pack, record as Record<string, unknown>, index), index)
  }
}
