// Schemas of a reader's responses, for the API documentation and for the tests that check responses.

import { type TSchema, Type } from 'typebox'
import { exampleIds } from '../../control-plane/client.ts'
import { exampleOf } from '../../http/openapi/document.ts'
import { mediaTypes } from './content-negotiation.ts'

const always = {
  Channel: Type.String({ examples: [exampleIds.channel] }),
  Subtopic: Type.String({ description: 'Dotted, may be empty.', examples: ['house.attic'] }),
  Publisher: Type.String({ description: 'The id of the thing that sent the message.', examples: [exampleIds.thing] }),
  Protocol: Type.String({ description: '`http`, `mqtt`, `kafka`.', examples: ['http'] }),
}
const exampleName = 'urn:dev:mac:0024befffe804ff1:temperature'
const name = Type.String({ examples: [exampleName] })
const unit = Type.Optional(Type.String({ examples: ['Cel'] }))
const exampleTime = 1_793_491_199.25

const older = 'Sent with `compatibility`, in addition to the key in capitals.'
const forOlderClients = {
  update_time: Type.Optional(Type.Number({ description: older })),
  string_value: Type.Optional(Type.String({ description: older })),
  bool_value: Type.Optional(Type.Boolean({ description: older })),
  data_value: Type.Optional(Type.String({ description: older })),
}

/** A SenML record in a response. */
export const recordSchema = Type.Object(
  {
    ...always,
    Name: name,
    Unit: unit,
    Time: Type.Number({ description: 'Seconds since 1970, to the microsecond.', examples: [exampleTime] }),
    UpdateTime: Type.Optional(Type.Number({ description: 'Seconds.' })),
    Value: Type.Optional(Type.Number({ examples: [21.5] })),
    StringValue: Type.Optional(Type.String()),
    BoolValue: Type.Optional(Type.Boolean()),
    DataValue: Type.Optional(Type.String({ description: 'base64url without padding.' })),
    Sum: Type.Optional(Type.Number()),
    ...forOlderClients,
  },
  { title: 'SenmlRecord', additionalProperties: false },
)

/** A JSON document in an answer. */
const documentSchema = Type.Object(
  {
    ...always,
    Created: Type.Integer({ description: 'Nanoseconds since 1970.', examples: [1_793_491_199_250_000_000] }),
    Payload: Type.Record(Type.String(), Type.Unknown(), { examples: [{ temperature: 21.5, door: { open: false } }] }),
  },
  { title: 'JsonDocument', additionalProperties: false },
)

/** A bucket of an aggregation in an answer. */
const bucketSchema = Type.Object(
  {
    Channel: always.Channel,
    Publisher: always.Publisher,
    Subtopic: always.Subtopic,
    Name: Type.String({ description: 'Of JSON documents the `field`.', examples: [exampleName] }),
    Unit: unit,
    Time: Type.Number({ description: 'Start of the bucket, seconds since 1970.', examples: [1_793_487_600] }),
    Value: Type.Union([Type.Number(), Type.Null()], { description: 'null if it is beyond the range of a double.', examples: [20.75] }),
    Count: Type.Integer({ description: 'Number of records with a number in the bucket.', examples: [60] }),
  },
  { title: 'Bucket', additionalProperties: false },
)

/** With `keys=lower`. */
const lowered = ({ title = '', properties }: { title?: string; properties: Record<string, TSchema> }) =>
  Type.Object(
    Object.fromEntries(
      Object.entries(properties).map(([name, schema]) => [name.replace(/(?<=[a-z])(?=[A-Z])/, '_').toLowerCase(), schema]),
    ),
    { title: `Lower${title}`, additionalProperties: false },
  )
const rowSchemas = [recordSchema, documentSchema, bucketSchema]

/** A page as JSON. */
export const pageSchema = Type.Object(
  {
    total: Type.Optional(Type.Integer({ description: 'Absent with `count=none` and in an export.', examples: [1] })),
    total_is_lower_bound: Type.Optional(Type.Boolean({ description: 'Present, and true, only if there are at least `total` records.' })),
    offset: Type.Integer({ examples: [0] }),
    limit: Type.Union([Type.Integer(), Type.Literal('all')], { examples: [10] }),
    format: Type.String({ examples: ['messages'] }),
    messages: Type.Array(Type.Union([...rowSchemas, ...rowSchemas.map(lowered)])),
    next_cursor: Type.Optional(Type.String({ description: 'If there are more records: the parameter `cursor` of the next page.' })),
  },
  { title: 'MessagesPage', additionalProperties: false },
)

const exampleRecord = exampleOf(recordSchema)
const examplePage = (format: string, message: unknown) => ({ value: { total: 1, offset: 0, limit: 10, format, messages: [message] } })
const exampleTable = `Channel,Subtopic,Publisher,Protocol,Name,Unit,Time,UpdateTime,Value,StringValue,BoolValue,DataValue,Sum\r\n${exampleIds.channel},house.attic,${exampleIds.thing},http,temperature,Cel,${exampleTime},,21.5,,,,\r\n`

/** The response in each available form, for the description of the route. */
export const pageAnswer = {
  description: 'The page, in the requested order; gzipped if `Accept-Encoding` allows it.',
  headers: {
    ETag: { type: 'string', optional: true, description: 'For If-None-Match; an export has none.' },
    Link: { type: 'string', optional: true, description: 'If there are more records: `<the next page>; rel="next"` (RFC 8288).' },
  },
  content: {
    [mediaTypes.json]: {
      schema: pageSchema,
      examples: {
        'SenML records': examplePage('messages', exampleRecord),
        'JSON documents': examplePage('weather', { ...exampleOf(documentSchema)!, Subtopic: 'house.attic.weather' }),
        'averages of an hour': examplePage('messages', exampleOf(bucketSchema)),
      },
    },
    [mediaTypes.ndjson]: {
      schema: Type.String({ description: 'One record per line, as in `messages`.' }),
      example: `${JSON.stringify(exampleRecord)}\n`,
    },
    [mediaTypes.csv]: {
      schema: Type.String({ description: 'RFC 4180: a header line with the keys of the records, then one line per record.' }),
      example: exampleTable,
    },
  },
}

const more = (what: string) => Type.Boolean({ description: what, examples: [false] })

/** The formats of a channel. */
export const formatsSchema = Type.Object(
  {
    formats: Type.Array(
      Type.Object(
        {
          format: Type.String({
            description: 'Value for the parameter `format` of a page; SenML is `messages`.',
            examples: ['weather'],
          }),
          subtopics: Type.Array(
            Type.Object(
              {
                subtopic: Type.String({ description: 'Dotted, may be empty.', examples: ['attic.weather'] }),
                last: Type.Number({ description: 'The time of its newest message, seconds since 1970.', examples: [exampleTime] }),
              },
              { title: 'FormatSubtopic', additionalProperties: false },
            ),
            { description: 'The most recent one first.' },
          ),
          more: more('There may be more subtopics, because there are more than these, or more messages than were examined.'),
        },
        { title: 'Format', additionalProperties: false },
      ),
      { description: 'SenML first, then the others by name.' },
    ),
    more: more('There are more formats than these.'),
    since: Type.Integer({ description: 'Only messages since this time are considered, seconds since 1970.', examples: [1_792_886_399] }),
  },
  { title: 'Formats', additionalProperties: false, description: 'The formats, with the subtopics of each.' },
)
