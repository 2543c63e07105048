// Properties of every row on which stores rely without checking (transformers/transformer.ts).

import type { JsonValue, RecordColumns } from '../../../transformers/record-batch.ts'
import { ValueKind } from '../../../transformers/record-batch.ts'
import { defaultTimeBounds, type Transformer } from '../../../transformers/transformer.ts'
import { createdUs } from '../../transformers/json/rows.ts'
import { differ, must, type Property } from '../property.ts'
import { openSlate } from './slate.ts'

const namePattern = /^[A-Za-z0-9][A-Za-z0-9\-:./_]*$/
const timeMaxUs = createdUs + defaultTimeBounds.timeAheadMaxUs

/** Names are valid, texts contain neither a NUL nor half of a surrogate pair, numbers are finite, times are in range and in order. */
export function storableRecords(transformer: Transformer): Property {
  const slate = openSlate()
  return {
    name: 'accepted rows can be stored, and are in the order of time',
    holds(input) {
      if (slate.decode(transformer, input) !== undefined) return
      const { records, documents } = slate.batch
      if (documents.length > 0) throw new Error('a pack gave documents')
      for (let row = 0; row < records.length; row++) must(rowDiffers(records, row))
    },
  }
}

function rowDiffers(records: RecordColumns, row: number): string | undefined {
  const [name, unit, kind, number, content] = [
    records.name[row]!,
    records.unit[row],
    records.valueKind[row],
    records.number[row]!,
    records.content[row],
  ]
  if (!namePattern.test(name)) return differ(`name of row ${row}`, name, 'a name')
  if (unit !== undefined && (unit === '' || !isStorableText(unit))) return differ(`unit of row ${row}`, unit, 'a unit')
  if (!isRightTime(records.timeUs[row]!)) return differ(`time of row ${row}`, records.timeUs[row], 'an instant within the bounds')
  const hasSum = Number.isFinite(records.sum[row])
  if (!hasSum && !Number.isNaN(records.sum[row])) return differ(`sum of row ${row}`, records.sum[row], 'a finite one')
  if (Math.abs(records.updateTime[row]!) === Number.POSITIVE_INFINITY)
    return differ(`update time of row ${row}`, records.updateTime[row], 'a finite one')
  const hasNumber =
    kind === ValueKind.number ? Number.isFinite(number) : kind === ValueKind.boolean ? number === 0 || number === 1 : Number.isNaN(number)
  if (!hasNumber) return differ(`number of row ${row}, whose kind is ${kind}`, number, 'another')
  const hasContent =
    kind === ValueKind.string
      ? typeof content === 'string' && isStorableText(content)
      : kind === ValueKind.data
        ? content instanceof Uint8Array
        : content === undefined
  if (!hasContent) return differ(`content of row ${row}, whose kind is ${kind}`, content, 'another')
  if (kind === ValueKind.none && !hasSum) return `row ${row} has neither a value nor a sum`
  if ([number, records.sum[row], records.updateTime[row], records.timeUs[row]].some(each => Object.is(each, -0)))
    return `row ${row} has a negative zero`
  if (row === 0) return undefined
  const later = records.timeUs[row]! - records.timeUs[row - 1]!
  return later > 0 || (later === 0 && records.index[row]! > records.index[row - 1]!) ? undefined : `row ${row} is out of order`
}

export function isRightTime(us: number): boolean {
  return Number.isSafeInteger(us) && us >= defaultTimeBounds.timeMinUs && us <= timeMaxUs
}

function isStorableText(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}

/** Whether a store can keep it: texts as in `isStorableText`, and finite numbers. */
export function isStorable(value: JsonValue): boolean {
  if (typeof value === 'string') return isStorableText(value)
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || value === null) return true
  if (Array.isArray(value)) return value.every(isStorable)
  return Object.entries(value).every(([key, inner]) => isStorableText(key) && isStorable(inner))
}
