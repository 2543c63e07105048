// Decodes rows from the bytes of the store's documents. A hot path: the fields of a row are always in the same order, so each is searched after the
// previous.

import {
  behindNul,
  documentFields,
  elementType,
  head,
  indexOf,
  numberAt,
  originFields,
  payloadText,
  recordFields,
  rowIdLength,
  stringAt,
  valueEnd,
} from '../../sinks/mongodb/bson.ts'
import type { DocumentRow, SenmlRow } from '../reader.ts'

/** The fields of a row in their order, and the number of each. */
interface Layout<Field extends string> {
  /** Each with its 00. */
  readonly names: readonly Uint8Array[]
  readonly numberOf: Readonly<Record<Field, number>>
}

const idHead = { id: head(elementType.binary, '_id') } as const
const recordLayout = layoutOf({ ...idHead, ...originFields, ...recordFields })
const documentLayout = layoutOf({ ...idHead, ...originFields, ...documentFields })

function layoutOf<Field extends string>(elements: Readonly<Record<Field, Uint8Array>>): Layout<Field> {
  const fields = Object.keys(elements) as Field[]
  return {
    names: fields.map(field => elements[field].subarray(1)),
    numberOf: Object.fromEntries(fields.map((field, number) => [field, number])) as Record<Field, number>,
  }
}

// For the document that is being read, by field number: where the value begins (0 if it is missing), and its type.
const starts = new Int32Array(Math.max(recordLayout.names.length, documentLayout.names.length))
const types = new Uint8Array(starts.length)

/** Skips fields that operators have added. */
function findFields({ names }: Layout<string>, bytes: Buffer): void {
  starts.fill(0)
  let next = 0
  for (let at = 4; bytes[at] !== 0; ) {
    const type = bytes[at]!
    const number = numberOfName(names, bytes, at + 1, next)
    let value: number
    if (number < 0) value = behindNul(bytes, at + 1)
    else {
      value = at + 1 + names[number]!.length
      starts[number] = value
      types[number] = type
      next = number + 1
    }
    at = valueEnd(type, bytes, value)
  }
}

function numberOfName(names: readonly Uint8Array[], bytes: Buffer, at: number, next: number): number {
  for (let number = next; number < names.length; number++) if (isAt(names[number]!, bytes, at)) return number
  for (let number = 0; number < next; number++) if (isAt(names[number]!, bytes, at)) return number
  return -1
}

function isAt(name: Uint8Array, bytes: Buffer, at: number): boolean {
  for (let nth = 0; nth < name.length; nth++) if (bytes[at + nth] !== name[nth]) return false
  return true
}

/**
 * @param bytes one document of the collection `messages`
 * @param channel the channel that was queried
 * @throws Error if the document is not a row of the sink
 */
export function recordOf(bytes: Buffer, channel: string): SenmlRow {
  findFields(recordLayout, bytes)
  const { id, subtopic, publisher, protocol, name, unit, timeUs, value, stringValue, boolValue, dataValue, sum, updateTime } =
    recordLayout.numberOf
  const rowId = rowIdIn(bytes, id)
  return {
    kind: 'senml',
    channel,
    subtopic: textIn(bytes, subtopic),
    publisher: textIn(bytes, publisher),
    protocol: textIn(bytes, protocol),
    position: rowId.readBigUInt64BE(0),
    index: indexOf(rowId),
    name: textIn(bytes, name),
    unit: optionalTextIn(bytes, unit),
    timeUs: numberIn(bytes, timeUs) ?? noRow('time'),
    value: numberIn(bytes, value),
    stringValue: optionalTextIn(bytes, stringValue),
    boolValue: isOfType(boolValue, elementType.boolean) ? bytes[starts[boolValue]!] !== 0 : undefined,
    dataValue: isOfType(dataValue, elementType.binary) ? Buffer.from(binaryIn(bytes, dataValue)) : undefined,
    sum: numberIn(bytes, sum),
    updateTime: numberIn(bytes, updateTime),
  }
}

/**
 * @param bytes one document of a format's collection; its payload may be left out
 * @param channel the channel that was queried
 * @throws Error if the document is not a row of the sink
 */
export function documentOf(bytes: Buffer, channel: string): DocumentRow {
  findFields(documentLayout, bytes)
  const { id, subtopic, publisher, protocol, created, payload } = documentLayout.numberOf
  const rowId = rowIdIn(bytes, id)
  return {
    kind: 'document',
    channel,
    subtopic: textIn(bytes, subtopic),
    publisher: textIn(bytes, publisher),
    protocol: textIn(bytes, protocol),
    position: rowId.readBigUInt64BE(0),
    index: indexOf(rowId),
    createdNs: isOfType(created, elementType.int64) ? bytes.readBigInt64LE(starts[created]) : noRow('time'),
    payloadText: isOfType(payload, elementType.document) ? payloadText(bytes, starts[payload]!) : '{}',
  }
}

function isOfType(number: number, type: number): boolean {
  return starts[number] !== 0 && types[number] === type
}

function textIn(bytes: Buffer, number: number): string {
  return optionalTextIn(bytes, number) ?? noRow('text that every row has')
}

function optionalTextIn(bytes: Buffer, number: number): string | undefined {
  return isOfType(number, elementType.string) ? stringAt(bytes, starts[number]!) : undefined
}

function numberIn(bytes: Buffer, number: number): number | undefined {
  return starts[number] === 0 ? undefined : numberAt(types[number]!, bytes, starts[number]!)
}

/** The bytes, without copying them. */
function binaryIn(bytes: Buffer, number: number): Buffer {
  const start = starts[number]!
  return bytes.subarray(start + 5, start + 5 + bytes.readInt32LE(start))
}

function rowIdIn(bytes: Buffer, number: number): Buffer {
  const rowId = isOfType(number, elementType.binary) ? binaryIn(bytes, number) : undefined
  return rowId?.length === rowIdLength ? rowId : noRow('_id of 12 bytes')
}

function noRow(what: string): never {
  throw new Error(`a document of the store has no ${what}: it was not written by sluice, remove it`)
}
