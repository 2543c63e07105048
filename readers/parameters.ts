// The query string of a reader: what may stand in it, as a schema that checks it and documents it. What it means is in question.ts.

import { type Static, Type } from 'typebox'
import { exampleIds } from '../control-plane/client.ts'
import { instantPattern } from './instants.ts'
import { senmlFormat } from './reader.ts'

const number = '^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$'
const textMax = 4096

const instant = {
  pattern: instantPattern,
  allowed: 'seconds since 1970, such as 1600000000.5, or RFC 3339, such as 2020-09-13T12:26:40.5Z',
}

const text = (description: string, example: string, more: object = {}) =>
  Type.Optional(Type.String({ maxLength: textMax, description, examples: [example], ...more }))

/** Those that every question takes, by their names in the query string. */
const filters = {
  subtopic: text('Only with this subtopic, its parts divided by . or /; empty: without one.', 'house.attic', { maxLength: 1024 }),
  publisher: text('Only what this thing published.', exampleIds.thing, { maxLength: 1024 }),
  protocol: text('Only what came by this protocol: `http`, `mqtt`, `kafka`.', 'http', { maxLength: 64 }),
  name: text('SenML: only records of this name.', 'urn:dev:mac:0024befffe804ff1:temperature'),
  unit: text('SenML: only records of this unit; empty: without one.', 'Cel', { maxLength: 1024 }),
  v: text('SenML: only records whose number compares so with this one.', '21.5', {
    maxLength: 400,
    pattern: number,
    allowed: 'a number such as 21.5 or -1e3',
  }),
  comparator: Type.Optional(
    Type.Enum(['eq', 'lt', 'le', 'gt', 'ge'], {
      description: 'How `v` is compared: equal (the default), less, less or equal, greater, greater or equal.',
    }),
  ),
  vb: Type.Optional(Type.Enum(['true', 'false'], { description: 'SenML: only records with this truth value.' })),
  vs: text('SenML: only records with this text.', 'open', { maxLength: 65_536 }),
  vd: text('SenML: only records with these bytes, in base64url without padding.', '3q2-7w', {
    maxLength: 131_072,
    pattern: '^[A-Za-z0-9_-]*$',
    allowed: 'base64url without padding',
  }),
  from: text('Only from this instant on: seconds since 1970, or RFC 3339.', '2026-11-01T00:00:00Z', instant),
  to: text('Only before this instant: seconds since 1970, or RFC 3339.', '1793577600', instant),
}

/** Defaults as SPEC §8 has them. A format is at most as long as the subtopic that it is the last part of. */
export function parametersSchema(limitMax: number, offsetMax: number) {
  return Type.Object(
    {
      offset: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: offsetMax,
          default: 0,
          allowed: `a whole number from 0 to ${offsetMax}; go further with cursor`,
          description: 'Records to pass over. Each is looked at: page with `cursor`.',
        }),
      ),
      limit: Type.Optional(
        Type.String({
          pattern: '^(all|[1-9][0-9]{0,9})$',
          default: String(Math.min(10, limitMax)),
          allowed: `a whole number from 1 to ${limitMax}, or all`,
          description: `Records of a page, at most ${limitMax}; \`all\` streams every one.`,
        }),
      ),
      format: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 1024,
          default: senmlFormat,
          allowed: "the last part of the messages' subtopic",
          description: `The last part of the subtopic of JSON messages; SenML is \`${senmlFormat}\`.`,
        }),
      ),
      ...filters,
      order: Type.Optional(Type.Enum(['time'], { description: 'By what records are ordered; beside it by their place in the log.' })),
      dir: Type.Optional(Type.Enum(['asc', 'desc'], { default: 'desc', description: 'The newest first, or the oldest.' })),
      cursor: Type.Optional(
        Type.String({
          maxLength: 100,
          description: '`next_cursor` of the page before, with the same query.',
          examples: ['bjQLnP-zepicpUTmu3gKLHiQHT-zNzh2hRGjBhevoB1L9RIvNEVUxTveLruM0rfj0WAK1jE'],
        }),
      ),
      count: Type.Optional(
        Type.Enum(['exact', 'none'], {
          description:
            'How `total` is found: exactly, however long it takes; not at all. Left out: exactly up to a bound, then a lower bound.',
        }),
      ),
      latest: Type.Optional(Type.Enum(['true', 'false'], { description: 'Only the newest record of each publisher, subtopic and name.' })),
      aggregation: Type.Optional(
        Type.Enum(['min', 'max', 'avg', 'sum', 'count', 'first', 'last'], {
          description: 'SenML: one number for each publisher, subtopic, name and unit in each interval.',
        }),
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
          description: 'The keys of records in lower case: `channel`, `update_time`, `string_value`; for scripts that read them so.',
        }),
      ),
      csv_safe: Type.Optional(
        Type.Enum(['true', 'false'], { description: "CSV: texts that a spreadsheet would take for a formula get a ' in front." }),
      ),
    },
    {
      additionalProperties: false,
      patternProperties: {
        '^payload\\..': Type.String({
          maxLength: textMax,
          description: 'JSON: only documents whose field at this dotted path has this text.',
        }),
      },
    },
  )
}
export type Parameters = Static<ReturnType<typeof parametersSchema>> & Readonly<Record<`payload.${string}`, string>>

export const daysUsual = 7

export const formatsParameters = Type.Object(
  {
    days: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 30,
        default: daysUsual,
        allowed: 'a whole number from 1 to 30',
        description: 'Only what has messages of the last so many days.',
        examples: [daysUsual],
      }),
    ),
  },
  { additionalProperties: false },
)
