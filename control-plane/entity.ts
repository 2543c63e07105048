// Name and metadata, which things and channels share: their schema and the limits that a schema cannot express.

import { Type } from 'typebox'
import type { Database, SqlRow, SqlValue } from '../database/database.ts'
import { type Fault, HttpError } from '../http/errors.ts'
import { parseJsonText, pointerPart, unstorable } from '../http/requests/json-body.ts'
import { boundedRows, type PageRequest, pageSql, type Searcher } from './requests/page.ts'
import { refuseFaults, textFault } from './requests/text.ts'

export const nameBytesMax = 1_024
export const metadataBytesMax = 65_536
const metadataDepthMax = 16
/** Each element of an array in a filter is compared with each element of the stored one. */
const filterBytesMax = 4_096
const filterElementsMax = 16
/** Also the largest number of ids that one list of a body may hold. */
export const bulkItemsMax = 1_000
/** More faults would not help the caller, and the answer to a hostile bulk stays small. */
const faultsMax = 20

export const metadataSchema = Type.Record(Type.String(), Type.Unknown(), {
  title: 'Metadata',
  description: `A JSON object of at most ${metadataBytesMax} bytes and ${metadataDepthMax} levels.`,
  examples: [{ location: 'roof' }],
})
export type Metadata = Record<string, unknown>

/** @param example a name */
export function newEntitySchema(title: string, example: string) {
  return Type.Object(
    {
      name: Type.String({
        default: '',
        maxLength: nameBytesMax,
        description: `At most ${nameBytesMax} bytes in UTF-8.`,
        examples: [example],
      }),
      metadata: Type.Optional(metadataSchema),
    },
    { title },
  )
}

/**
 * The form in which names are compared: Unicode's full case folding, in NFC. It is computed here, so that it is the same on every database, whatever
 * its locale and version. It takes at most three times the bytes of the name.
 *
 * What grows in upper case equals what it grows to: `straße` is `STRASSE`, `ﬁ` is `fi`. Lower case comes first because ẞ, the capital of ß, is upper
 * case already. A sigma is the same letter inside a word and at its end (ς).
 *
 * The letters of Turkish follow the default mappings of Unicode: ı is i, since the capital of both is I. İ is i with a dot above (U+0307): it equals
 * İ in any composition and its own lower case, and not i. Accents count: é is not e.
 */
export function foldedName(name: string): string {
  return name.normalize('NFC').toLowerCase().toUpperCase().toLowerCase().replaceAll('ς', 'σ').normalize('NFC')
}

export interface NewEntity {
  name: string
  metadata?: Metadata
}

/** The filters of lists and of search; an empty filter counts as left out. */
export const nameQuery = Type.Optional(
  Type.String({
    maxLength: nameBytesMax,
    description: 'Only those with this in their name, compared by Unicode case folding: `strasse` finds `Straße`.',
    examples: ['station'],
  }),
)
export const metadataQuery = Type.Optional(
  Type.String({
    description: `Only those whose metadata contains this JSON object, of at most ${filterBytesMax} bytes and ${filterElementsMax} array elements.`,
    contentSchema: metadataSchema,
  }),
)

export interface EntityFilter {
  /** A part of the name, compared as `foldedName` says. */
  readonly name?: string | undefined
  /** A part of the stored metadata. */
  readonly metadata?: Metadata | undefined
}

/**
 * Conditions to append to others, and their values. Contains only the given filters, so that a cached plan fits every request with the same
 * filters.
 *
 * @param values how many values the statement has before them
 */
function filterSql({ name, metadata }: EntityFilter, values: number): [sql: string, values: string[]] {
  const conditions = [
    ...(name === undefined ? [] : [{ condition: (at: number) => `strpos(name_folded, $${at}) > 0`, value: foldedName(name) }]),
    ...(metadata === undefined ? [] : [{ condition: (at: number) => `metadata @> $${at}::jsonb`, value: JSON.stringify(metadata) }]),
  ]
  return [conditions.map(({ condition }, at) => ` AND ${condition(values + 1 + at)}`).join(''), conditions.map(({ value }) => value)]
}

/**
 * The rows of a page that also match these filters; a metadata filter takes turns and is bounded in time (`boundedRows`).
 *
 * @param matching the statement for `pageSql`, and its values without offset and limit
 * @param advice what the caller can do if a metadata filter takes too long
 */
export function filteredRows<Row extends SqlRow>(
  database: Database,
  [matching, values]: readonly [sql: string, values: readonly SqlValue[]],
  filter: EntityFilter,
  page: PageRequest,
  by: Searcher,
  advice = 'narrow the list by name too',
): Promise<(Row & { total: bigint })[]> {
  const isByMetadata = filter.metadata !== undefined
  const [filtered, wanted] = filterSql(filter, values.length)
  const all = [...values, ...wanted, page.offset, page.limit]
  const sql = pageSql(matching + filtered, all.length, page, { readsOnce: isByMetadata })
  return isByMetadata ? boundedRows(database, by, advice, sql, all) : database.query(sql, all)
}

/** @throws HttpError `malformed_request` with the place of each fault; `pointer` is the place of the entities: `/body` for a list */
export function checkEntities(entities: readonly NewEntity[], pointer: (index: number) => string): void {
  const faults: Fault[] = []
  for (const [index, entity] of entities.entries()) {
    if (faults.length >= faultsMax) break
    const faultInName = textFault(entity.name, nameBytesMax)
    if (faultInName !== undefined) faults.push({ pointer: `${pointer(index)}/name`, detail: faultInName })
    const faultInMetadata = entity.metadata === undefined ? undefined : metadataFault(entity.metadata, `${pointer(index)}/metadata`)
    if (faultInMetadata !== undefined) faults.push(faultInMetadata)
  }
  refuseFaults(faults)
}

/** The fault in the metadata, or undefined; `pointer` is its place in the request. */
export function metadataFault(metadata: Metadata, pointer: string): Fault | undefined {
  const expansion = { bytes: 0 }
  const fault = valueFault(metadata, 1, expansion)
  if (fault !== undefined) return { pointer: pointer + fault.pointer, detail: fault.detail }
  const bytes = Buffer.byteLength(JSON.stringify(metadata)) + expansion.bytes
  if (bytes <= metadataBytesMax) return undefined
  return { pointer, detail: `has ${bytes} bytes as JSON, numbers written out: give at most ${metadataBytesMax}` }
}

/**
 * The store writes numbers out: 1e-300 takes six bytes here and 302 there. `expansion` gathers the difference.
 *
 * @returns a fault with its place below the value
 */
function valueFault(value: unknown, depth: number, expansion: { bytes: number }): Fault | undefined {
  if (typeof value === 'string') return faultHere(unstorable(value))
  if (typeof value === 'number') {
    expansion.bytes += writtenOutBytes(value)
    return Math.abs(value) > Number.MAX_SAFE_INTEGER ? faultHere(numberTooLarge) : undefined
  }
  if (typeof value !== 'object' || value === null) return undefined
  if (depth > metadataDepthMax) return faultHere(`is nested deeper than ${metadataDepthMax} levels: flatten it`)
  for (const key of Object.keys(value)) {
    const fault = faultHere(unstorable(key)) ?? valueFault((value as Metadata)[key], depth + 1, expansion)
    if (fault !== undefined) return { pointer: `/${pointerPart(key)}${fault.pointer}`, detail: fault.detail }
  }
  return undefined
}

/** After parsing, it is unknown whether 12345678901234567000 was sent with other digits. */
const numberTooLarge = `is a number beyond ${Number.MAX_SAFE_INTEGER}, too large to keep all its digits: give it as a string`

function faultHere(detail: string | undefined): Fault | undefined {
  return detail === undefined ? undefined : { pointer: '', detail }
}

function writtenOutBytes(value: number): number {
  // Every other number is printed without an exponent, or with one that is above zero.
  if (value === 0 || Math.abs(value) >= 1e-6) return 0
  const exponent = /e-(\d+)$/.exec(String(value))?.[1]
  return exponent === undefined ? 0 : Number(exponent)
}

/**
 * The metadata filter of a list, given as JSON in the query or left out: it matches if it is contained in the stored metadata (SPEC §2).
 *
 * @throws HttpError `malformed_request` if it is not a JSON object; `query_too_large`
 */
export function parseMetadataFilter(json: string | undefined): Metadata | undefined {
  if (json === undefined) return undefined
  const pointer = '/query/metadata'
  let filter: unknown
  try {
    filter = parseJsonText(json)
  } catch (error) {
    const detail = 'is not JSON: give an object such as {"location":"roof"}, percent-encoded'
    throw new HttpError('malformed_request', undefined, { faults: [{ pointer, detail }], cause: error })
  }
  if (typeof filter !== 'object' || filter === null || Array.isArray(filter))
    refuseFaults([{ pointer, detail: 'is not a JSON object: give one such as {"location":"roof"}' }])
  checkMetadataFilter(filter as Metadata, pointer)
  return filter as Metadata
}

/** @throws HttpError `malformed_request` for a filter that no metadata can contain; `query_too_large` for one that is slow to compare */
export function checkMetadataFilter(filter: Metadata | undefined, pointer: string): void {
  if (filter === undefined) return
  checkMetadata(filter, pointer)
  const [bytes, elements] = [Buffer.byteLength(JSON.stringify(filter)), arrayElements(filter)]
  if (bytes <= filterBytesMax && elements <= filterElementsMax) return
  const detail = `has ${bytes} bytes and ${elements} array elements: filter by at most ${filterBytesMax} bytes and ${filterElementsMax} elements`
  throw new HttpError('query_too_large', undefined, { faults: [{ pointer, detail }] })
}

/** Of all arrays in it. */
function arrayElements(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const within = Object.values(value).reduce<number>((sum, inner) => sum + arrayElements(inner), 0)
  return Array.isArray(value) ? within + value.length : within
}

/** @throws HttpError `malformed_request` for metadata that cannot be stored */
export function checkMetadata(metadata: Metadata | undefined, pointer: string): void {
  const fault = metadata === undefined ? undefined : metadataFault(metadata, pointer)
  if (fault !== undefined) refuseFaults([fault])
}
