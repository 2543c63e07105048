// The schema of a reader's query string, for validation and documentation. `request.ts` interprets it.

import { type Static, Type } from 'typebox'
import { exampleIds, storedChannelParameter, storedIdLengthMax } from '../../control-plane/client.ts'
import { senmlFormat } from '../reader.ts'
import { timestampPattern } from './time-range.ts'

const number = '^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$'
const textMax = 4096

const timestamp = {
  pattern: timestampPattern,
  allowed: 'seconds since 1970, such as 1600000000.5, or RFC 3339, such as 2020-09-13T12:26:40.5Z',
}

const text = (description: string, example: string, more: object = {}) =>
  Type.Optional(Type.String({ maxLength: textMax, description, examples: [example], ...more }))

/** Filters of every request, by their names in the query string. */
const filters = {
  subtopic: text('Only with this subtopic, its parts separated by . or /; empty: without one.', 'house.attic', {
    maxLength: storedIdLengthMax,
  }),
  publisher: text('Only messages published by this thing.', exampleIds.thing, { maxLength: storedIdLengthMax }),
  protocol: text('Only messages received by this protocol: `http`, `mqtt`, `kafka`.', 'http', { maxLength: 64 }),
  name: text('SenML: only records with this name.', 'urn:dev:mac:0024befffe804ff1:temperature'),
  unit: text('SenML: only records with this unit; empty: without one.', 'Cel', { maxLength: 1024 }),
  v: text('SenML: only records whose number compares with this one as `comparator` says.', '21.5', {
    maxLength: 400,
    pattern: number,
    allowed: 'a number such as 21.5 or -1e3',
  }),
  comparator: Type.Optional(
    Type.Enum(['eq', 'lt', 'le', 'gt', 'ge'], {
      description: 'How `v` is compared: equal (the default), less, less or equal, greater, greater or equal.',
    }),
  ),
  vb: Type.Optional(Type.Enum(['true', 'false'], { description: 'SenML: only records with this boolean value.' })),
  vs: text('SenML: only records with this text.', 'open', { maxLength: 65_536 }),
  vd: text('SenML: only records with these bytes, in base64url without padding.', '3q2-7w', {
    maxLength: 131_072,
    pattern: '^[A-Za-z0-9_-]*$',
    allowed: 'base64url without padding',
  }),
  from: text('Only since this time: seconds since 1970, or RFC 3339.', '2026-11-01T00:00:00Z', timestamp),
  to: text('Only before this time: seconds since 1970, or RFC 3339.', '1793577600', timestamp),
}

/** Parameters whose names have the path of a field. */
const byField = {
  additionalProperties: false,
  patternProperties: {
    '^payload\\..': Type.String({
      maxLength: textMax,
      description:
        'JSON: only documents whose field at this dotted path has this text. Within a key, a dot is `\\.` and a backslash `\\\\`.',
    }),
  },
}

/** Defaults as in SPEC §8. A format is at most as long as a subtopic, whose last part it is. */
export function querySchema(limitMax: number, offsetMax: number) {
  return Type.Object(
    {
      offset: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: offsetMax,
          default: 0,
          allowed: `a whole number from 0 to ${offsetMax}; use cursor to go further`,
          description: 'Records to skip. The store reads each of them, so prefer `cursor` for paging.',
        }),
      ),
      limit: Type.Optional(
        Type.String({
          pattern: '^(all|[1-9][0-9]{0,9})$',
          default: String(Math.min(10, limitMax)),
          allowed: `a whole number from 1 to ${limitMax}, or all`,
          description: `Records per page, at most ${limitMax}; \`all\` streams all records.`,
        }),
      ),
      format: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: storedIdLengthMax,
          default: senmlFormat,
          allowed: "the last part of the messages' subtopic",
          description: `The last part of the subtopic of JSON messages; SenML is \`${senmlFormat}\`.`,
        }),
      ),
      ...filters,
      order: Type.Optional(Type.Enum(['time'], { description: 'Order of records; those of the same time by their position in the log.' })),
      dir: Type.Optional(Type.Enum(['asc', 'desc'], { default: 'desc', description: '`desc`: newest first, `asc`: oldest first.' })),
      cursor: Type.Optional(
        Type.String({
          maxLength: 100,
          description: '`next_cursor` of the previous page, with otherwise the same query.',
          examples: ['EwZFtovrGZ0LOOKzQqVzV0liEt1PoE4L401eIIty_BdNhmG6BK07HFX5-bQFqJYIFtZZSvw'],
        }),
      ),
      count: Type.Optional(
        Type.Enum(['exact', 'none'], {
          description:
            'How `total` is counted: `exact`, however long it takes, or `none`. By default it is exact up to a bound, then a lower bound.',
        }),
      ),
      latest: Type.Optional(Type.Enum(['true', 'false'], { description: 'Only the newest record of each publisher, subtopic and name.' })),
      aggregation: Type.Optional(
        Type.Enum(['min', 'max', 'avg', 'sum', 'count', 'first', 'last'], {
          description:
            'One number for each publisher, subtopic, name and unit in each interval: of SenML, or of a `field` of JSON documents.',
        }),
      ),
      field: text(
        'JSON: the number at this dotted path is aggregated, like a record with this name; documents without one are left out.',
        'payload.temperature',
      ),
      interval: Type.Optional(
        Type.String({
          pattern: '^[1-9][0-9]{0,6}[smhd]$',
          allowed: 'a number with s, m, h or d, such as 10s, 5m, 1h, 1d',
          description: 'Length of the buckets of an aggregation.',
          examples: ['1h'],
        }),
      ),
      keys: Type.Optional(
        Type.Enum(['lower'], {
          description: 'Keys of records in lower case: `channel`, `update_time`, `string_value`.',
        }),
      ),
      csv_safe: Type.Optional(
        Type.Enum(['true', 'false'], {
          description: "CSV: a ' before what a spreadsheet would interpret as a formula, whatever character it takes as separator.",
        }),
      ),
    },
    byField,
  )
}
/** A query string that matches the schema. */
export type QueryString = Static<ReturnType<typeof querySchema>> & Readonly<Record<`payload.${string}`, string>>

/** Most channels of one request. */
const channelsMax = 100

/** The query string of a request for several channels. */
export function channelsQuerySchema(limitMax: number, offsetMax: number) {
  const { properties } = querySchema(limitMax, offsetMax)
  const channel = Type.Array(storedChannelParameter, {
    minItems: 1,
    maxItems: channelsMax,
    allowed: `1 to ${channelsMax} channels`,
    description: `The id of a channel, once for each of up to ${channelsMax} channels.`,
  })
  return Type.Object({ channel, ...properties }, byField)
}

/** How many days back formats are searched by default. */
export const daysUsual = 7

/** The query string of the formats of a channel. */
export const formatsQuerySchema = Type.Object(
  {
    days: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 30,
        default: daysUsual,
        allowed: 'a whole number from 1 to 30',
        description: 'Only formats with messages in this many last days.',
        examples: [daysUsual],
      }),
    ),
  },
  { additionalProperties: false },
)
