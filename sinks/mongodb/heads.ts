// The elements of a row, type and name of each, in the order in which they lie behind its `_id`: what the sink writes, and readers look for.

import { elementType, head } from './bson-bytes.ts'

/** Of every row. */
export const originHeads = {
  channel: head(elementType.string, 'channel'),
  subtopic: head(elementType.string, 'subtopic'),
  publisher: head(elementType.string, 'publisher'),
  protocol: head(elementType.string, 'protocol'),
} as const

/** Of a SenML record. */
export const recordHeads = {
  name: head(elementType.string, 'name'),
  unit: head(elementType.string, 'unit'),
  time: head(elementType.date, 'time'),
  timeUs: head(elementType.int64, 'timeUs'),
  value: head(elementType.double, 'value'),
  stringValue: head(elementType.string, 'stringValue'),
  boolValue: head(elementType.boolean, 'boolValue'),
  dataValue: head(elementType.binary, 'dataValue'),
  sum: head(elementType.double, 'sum'),
  updateTime: head(elementType.double, 'updateTime'),
} as const

/** Of a JSON document. */
export const documentHeads = {
  created: head(elementType.int64, 'created'),
  createdAt: head(elementType.date, 'createdAt'),
  payload: head(elementType.document, 'payload'),
} as const
