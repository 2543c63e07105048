// Resolved records as the text of a SenML JSON pack (RFC 8428 §4.6), times exact to the microsecond.

import { type RecordColumns, ValueKind } from '../transformers/record-batch.ts'

/** The version of a record without `bver`. */
const defaultVersion = 10

/**
 * The records as a JSON array, one per line, with their fields in this order: `n u v vs vb vd s t ut`.
 *
 * @param version of the pack; where it is not the default, each record has it as `bver`
 */
export function resolvedText(records: RecordColumns, version: number): string {
  if (records.length === 0) return '[]\n'
  const bver = version === defaultVersion ? '' : `"bver":${version},`
  const lines: string[] = []
  for (let row = 0; row < records.length; row++) lines.push(`{${bver}${recordText(records, row)}}`)
  return `[\n  ${lines.join(',\n  ')}\n]\n`
}

/** The fields of a record, without the braces around them. */
export function recordText(records: RecordColumns, row: number): string {
  const unit = records.unit[row]
  const sum = records.sum[row]!
  const updateTime = records.updateTime[row]!
  let text = `"n":${JSON.stringify(records.name[row])}`
  if (unit !== undefined) text += `,"u":${JSON.stringify(unit)}`
  text += valueText(records, row)
  if (!Number.isNaN(sum)) text += `,"s":${sum}`
  text += `,"t":${secondsText(records.timeUs[row]!)}`
  return Number.isNaN(updateTime) ? text : `${text},"ut":${updateTime}`
}

function valueText(records: RecordColumns, row: number): string {
  const content = records.content[row]
  switch (records.valueKind[row]!) {
    case ValueKind.number:
      return `,"v":${records.number[row]}`
    case ValueKind.string:
      return `,"vs":${JSON.stringify(content)}`
    case ValueKind.boolean:
      return `,"vb":${records.number[row] === 1}`
    case ValueKind.data:
      return `,"vd":"${Buffer.from(content as Uint8Array).toString('base64url')}"`
    default:
      return ''
  }
}

/** Works on the digits instead of dividing: after the year 2242, seconds as a double cannot represent every microsecond. */
function secondsText(timeUs: number): string {
  const digits = String(Math.abs(timeUs)).padStart(7, '0')
  const fraction = digits.slice(-6).replace(/0+$/, '')
  return `${timeUs < 0 ? '-' : ''}${digits.slice(0, -6)}${fraction === '' ? '' : `.${fraction}`}`
}
