// What a reader answers, as schemas: the documentation of its API, and what its tests hold answers against.

import { type TSchema, Type } from 'typebox'
import { exampleIds } from '../control-plane/client.ts'
import { mediaTypes } from './media-type.ts'

const always = {
  Channel: Type.String({ examples: [exampleIds.channel] }),
  Subtopic: Type.String({ description: 'Dotted, may be empty.', examples: ['house.attic'] }),
  Publisher: Type.String({ description: 'The id of the thing that sent the message.', examples: [exampleIds.thing] }),
  Protocol: Type.String({ description: '`http`, `mqtt`, `kafka`.', examples: ['http'] }),
}
const name = Type.String({ examples: ['urn:dev:mac:0024befffe804ff1:temperature'] })
const unit = Type.Optional(Type.String({ examples: ['Cel'] }))
const exampleTime = 1_793_491_199.25

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

export const documentSchema = Type.Object(
  {
    ...always,
    Created: Type.Integer({ description: 'Nanoseconds since 1970.', examples: [1_793_491_199_250_000_000] }),
    Payload: Type.Record(Type.String(), Type.Unknown(), { examples: [{ temperature: 21.5, door: { open: false } }] }),
  },
  { title: 'JsonDocument', additionalProperties: false },
)

export const bucketSchema = Type.Object(
  {
    Channel: always.Channel,
    Publisher: always.Publisher,
    Subtopic: always.Subtopic,
    Name: name,
    Unit: unit,
    Time: Type.Number({ description: 'Where the bucket begins, seconds since 1970.', examples: [1_793_487_600] }),
    Value: Type.Union([Type.Number(), Type.Null()], { description: 'null: beyond the range of a double.', examples: [20.75] }),
    Count: Type.Integer({ description: 'Records with a number in it.', examples: [60] }),
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

export const pageSchema = Type.Object(
  {
    total: Type.Optional(Type.Integer({ description: 'Absent with `count=none` and of an export.', examples: [1] })),
    total_is_lower_bound: Type.Optional(Type.Boolean({ description: 'Only there, and true, where there are at least `total`.' })),
    offset: Type.Integer({ examples: [0] }),
    limit: Type.Union([Type.Integer(), Type.Literal('all')], { examples: [10] }),
    format: Type.String({ examples: ['messages'] }),
    messages: Type.Array(Type.Union([...rowSchemas, ...rowSchemas.map(lowered)])),
    next_cursor: Type.Optional(Type.String({ description: 'Where there are more: the parameter `cursor` of the next page.' })),
  },
  { title: 'MessagesPage', additionalProperties: false },
)

const exampleLines = `{"Channel":"${exampleIds.channel}","Subtopic":"house.attic","Publisher":"${exampleIds.thing}","Protocol":"http","Name":"temperature","Unit":"Cel","Time":${exampleTime},"Value":21.5}\n`
const exampleTable = `Channel,Subtopic,Publisher,Protocol,Name,Unit,Time,UpdateTime,Value,StringValue,BoolValue,DataValue,Sum\r\n${exampleIds.channel},house.attic,${exampleIds.thing},http,temperature,Cel,${exampleTime},,21.5,,,,\r\n`

/** The answer in each form that there is, as the description of the route names them. */
export const pageAnswer = {
  description: 'The page, in the order that was asked for; in gzip where `Accept-Encoding` takes it.',
  headers: { Link: { type: 'string', optional: true, description: 'Where there are more: `<the next page>; rel="next"` (RFC 8288).' } },
  content: {
    [mediaTypes.json]: { schema: pageSchema },
    [mediaTypes.ndjson]: { schema: Type.String({ description: 'A record on each line, as in `messages`.' }), example: exampleLines },
    [mediaTypes.csv]: {
      schema: Type.String({ description: 'RFC 4180: a header line with the keys of the records, and a line for each.' }),
      example: exampleTable,
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
            { description: 'The one that came last first.' },
          ),
          more: more('There may be more subtopics: more than these, or more messages than were looked at.'),
        },
        { title: 'Format', additionalProperties: false },
      ),
      { description: 'SenML first, then the others by their names.' },
    ),
    more: more('There are more formats than these.'),
    since: Type.Integer({ description: 'Only messages from this time on, seconds since 1970.', examples: [1_792_886_399] }),
  },
  { title: 'Formats', additionalProperties: false, description: 'The formats, with the subtopics of each.' },
)
