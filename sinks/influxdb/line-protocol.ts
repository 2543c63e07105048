// Texts in line protocol: tags, field keys and string values, as InfluxDB 2.7 reads them, and which of them it could not give back.
//
// A line is `measurement,tag=value,… field=value,… time`. In tags and field keys a comma, an equals sign and a space are escaped by a backslash; a
// backslash stands for itself, and cannot be escaped. So one at the end of a tag would escape what stands behind it, and in a field
// key also one before an escaped character, which is read as a pair with the backslash that escapes. No line end can be escaped, and
// a CR would be lost in the CSV of every answer.

/** Of the measurement and the tags as they are written, and of the longest field key, with four bytes between. */
export const seriesBytesMax = 65_535
/** Of a string value. */
export const stringBytesMax = 1_048_576

/** What has to be looked at: in short texts of devices there is none of it. */
const tagMark = /[,= \\\n\r\0\ud800-\udfff]/
const keyMark = /[,= "\\\n\r\0\ud800-\udfff]/
const stringMark = /["\\\0\ud800-\udfff]/

/** A tag's value; undefined where it cannot be kept. An empty one cannot be written either: its tag is left out. */
export function tagText(value: string): string | undefined {
  if (!tagMark.test(value)) return value
  if (/[\n\r\0]/.test(value) || value.endsWith('\\') || !value.isWellFormed()) return undefined
  return value.replaceAll(/[,= ]/g, '\\$&')
}

/** A field key; undefined where it cannot be kept. */
export function fieldKeyText(key: string): string | undefined {
  if (!keyMark.test(key)) return key
  if (/[\n\r\0]|\\[,= ]|\\$/.test(key) || !key.isWellFormed()) return undefined
  return key.replaceAll(/[,= "]/g, '\\$&')
}

/** A string value in its quotes; undefined where it cannot be kept. */
export function stringText(value: string): string | undefined {
  if (value.length > stringBytesMax / 3 && Buffer.byteLength(value) > stringBytesMax) return undefined
  if (!stringMark.test(value)) return `"${value}"`
  if (value.includes('\0') || !value.isWellFormed()) return undefined
  return `"${value.replaceAll(/["\\]/g, '\\$&')}"`
}

/** A line taken apart: what a delete has to name. */
export interface LineKey {
  readonly measurement: string
  readonly tags: ReadonlyMap<string, string>
  /** Nanoseconds since 1970. */
  readonly ns: bigint
}

/** Reads what stands before and behind the fields of a line that was written here. */
export function keyOfLine(line: string): LineKey {
  const [series, ...tags] = parts(line.slice(0, endOfSeries(line)), ',')
  return {
    measurement: unescaped(series!),
    tags: new Map(tags.map(tag => parts(tag, '=').map(unescaped) as [string, string])),
    ns: BigInt(line.slice(line.lastIndexOf(' ') + 1)),
  }
}

function endOfSeries(line: string): number {
  return /(?<!\\) /.exec(line)!.index
}

/** Splits at the separators that no backslash stands before. */
function parts(text: string, separator: ',' | '='): string[] {
  return text.split(separator === ',' ? /(?<!\\),/ : /(?<!\\)=/)
}

function unescaped(text: string): string {
  return text.replaceAll(/\\([,= ])/g, '$1')
}
