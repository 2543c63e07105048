// What a reader answers, as schemas: the documentation of its API, and what its tests hold answers against.

import { type TSchema, Type } from 'typebox'
import { mediaTypes } from './media-type.ts'

const always = {
  Channel: Type.String(),
  Subtopic: Type.String({ description: 'Dotted, may be empty.' }),
  Publisher: Type.String({ description: 'The id of the thing that sent the message.' }),
  Protocol: Type.String({ description: '`http`, `mqtt`, `kafka`.' }),
}
const time = Type.Number({ description: 'Seconds since 1970, to the microsecond.' })

const older = 'With `compatibility`, beside the key in capitals.'
const forOlderClients = {
  update_time: Type.Optional(Type.Number({ description: older })),
  string_value: Type.Optional(Type.String({ description: older })),
  bool_value: Type.Optional(Type.Boolean({ description: older })),
  data_value: Type.Optional(Type.String({ description: older })),
}

export const recordSchema = Type.Object(
  {
    ...always,
    Name: Type.String(),
    Unit: Type.Optional(Type.String()),
    Time: time,
    UpdateTime: Type.Optional(Type.Number({ description: 'Seconds.' })),
    Value: Type.Optional(Type.Number()),
    StringValue: Type.Optional(Type.String()),
    BoolValue: Type.Optional(Type.Boolean()),
    DataValue: Type.Optional(Type.String({ description: 'base64url without padding.' })),
    Sum: Type.Optional(Type.Number()),
    ...forOlderClients,
  },
  { additionalProperties: false },
)

export const documentSchema = Type.Object(
  {
    ...always,
    Created: Type.Integer({ description: 'Nanoseconds since 1970.' }),
    Payload: Type.Record(Type.String(), Type.Unknown()),
  },
  { additionalProperties: false },
)

export const bucketSchema = Type.Object(
  {
    Channel: Type.String(),
    Publisher: Type.String(),
    Subtopic: Type.String(),
    Name: Type.String(),
    Unit: Type.Optional(Type.String()),
    Time: Type.Number({ description: 'Where the bucket begins, seconds since 1970.' }),
    Value: Type.Union([Type.Number(), Type.Null()], { description: 'null: beyond the range of a double.' }),
    Count: Type.Integer({ description: 'Records with a number in it.' }),
  },
  { additionalProperties: false },
)

/** With `keys=lower`. */
const lowered = (properties: Record<string, TSchema>) =>
  Type.Object(
    Object.fromEntries(
      Object.entries(properties).map(([name, schema]) => [name.replace(/(?<=[a-z])(?=[A-Z])/, '_').toLowerCase(), schema]),
    ),
    { additionalProperties: false },
  )
const rowSchemas = [recordSchema, documentSchema, bucketSchema]

export const pageSchema = Type.Object(
  {
    total: Type.Optional(Type.Integer({ description: 'Absent with `count=none` and of an export.' })),
    total_is_lower_bound: Type.Optional(Type.Boolean({ description: 'Only there, and true, where there are at least `total`.' })),
    offset: Type.Integer(),
    limit: Type.Union([Type.Integer(), Type.Literal('all')]),
    format: Type.String(),
    messages: Type.Array(Type.Union([...rowSchemas, ...rowSchemas.map(({ properties }) => lowered(properties))])),
    next_cursor: Type.Optional(Type.String({ description: 'Where there are more: the parameter `cursor` of the next page.' })),
  },
  { additionalProperties: false },
)

/** The answer in each form that there is, as the description of the route names them. */
export const pageAnswer = {
  description: 'The page, in the order that was asked for; in gzip where `Accept-Encoding` takes it.',
  headers: { Link: Type.String({ description: 'Where there are more: `<the next page>; rel="next"` (RFC 8288).' }) },
  content: {
    [mediaTypes.json]: { schema: pageSchema },
    [mediaTypes.ndjson]: { schema: Type.String({ description: 'A record on each line, as in `messages`.' }) },
    [mediaTypes.csv]: {
      schema: Type.String({ description: 'RFC 4180: a header line with the keys of the records, and a line for each.' }),
    },
  },
}

const more = (what: string) => Type.Boolean({ description: what, examples: [false] })

export const formatsSchema = Type.Object(
  {
    formats: Type.Array(
      Type.Object(
        {
          format: Type.String({
            description: 'What the parameter `format` of a page takes; SenML is `messages`.',
            examples: ['temperature'],
          }),
          subtopics: Type.Array(
            Type.Object(
              {
                subtopic: Type.String({ description: 'Dotted, may be empty.', examples: ['attic.temperature'] }),
                last: Type.Number({ description: 'The time of its newest message, seconds since 1970.', examples: [1_793_491_199.25] }),
              },
              { additionalProperties: false },
            ),
            { description: 'The one that came last first.' },
          ),
          more: more('There may be more subtopics: more than these, or more messages than were looked at.'),
        },
        { additionalProperties: false },
      ),
      { description: 'SenML first, then the others by their names.' },
    ),
    more: more('There are more formats than these.'),
    since: Type.Integer({ description: 'Only messages from this time on, seconds since 1970.', examples: [1_792_886_399] }),
  },
  { additionalProperties: false, description: 'The formats, with the subtopics of each.' },
)
