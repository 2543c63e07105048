// The OpenAPI schemas of a publish and its responses. They do not validate payloads, which are accepted as bytes.

import { type TSchema, Type } from 'typebox'
import { channelParameter } from '../../control-plane/client.ts'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { linesType } from './lines.ts'

const number = (description: string, example?: number) =>
  Type.Optional(Type.Number({ description, ...(example === undefined ? {} : { examples: [example] }) }))
const text = (description: string, example?: string) =>
  Type.Optional(Type.String({ description, ...(example === undefined ? {} : { examples: [example] }) }))

const senmlRecord = Type.Object(
  {
    bn: text('Base name: prefix of the names from this record on.', 'urn:dev:mac:0024befffe804ff1:'),
    bt: number('Base time: added to the times from this record on.', 1_793_491_199.25),
    bu: text('Base unit: unit of records without one, from this record on.'),
    bv: number('Base value: added to the values from this record on.'),
    bs: number('Base sum: added to the sums from this record on.'),
    bver: Type.Optional(Type.Integer({ description: 'Version; 10 if omitted.' })),
    n: text('Name.', 'temperature'),
    u: text('Unit.', 'Cel'),
    v: number('Value: a number. Or use one of the three below.', 21.5),
    vs: text('Value: a text.'),
    vb: Type.Optional(Type.Boolean({ description: 'Value: true or false.' })),
    vd: text('Value: bytes, in base64url without padding.'),
    s: number('Sum.'),
    t: number('Time: seconds since 1970; below 2^28, seconds from now.'),
    ut: number('Update time: the next value follows within this many seconds.'),
  },
  { title: 'SenmlPackRecord', description: 'RFC 8428 §4.3. Unknown labels are ignored, except those that end in `_`.' },
)
const senmlPack = Type.Array(senmlRecord, { title: 'SenmlPack', description: 'RFC 8428 §4.' })
const examplePack = [
  { bn: 'urn:dev:mac:0024befffe804ff1:', bt: 1_793_491_199.25, n: 'temperature', u: 'Cel', v: 21.5 },
  { n: 'humidity', u: '%RH', v: 48.2 },
  { n: 'door', vb: false },
]
/** One record in CBOR: base name, name, unit and value. */
const exampleCbor =
  '81 a4 21 78 1d 75726e3a6465763a6d61633a303032346265666666653830346666313a 00 6b 74656d7065726174757265 01 63 43656c 02 f9 4d60'

const document = Type.Unknown({ title: 'JsonMessage', description: 'A JSON object, or a list of objects, each of which is stored.' })
const exampleDocument = { temperature: 21.5, humidity: 48.2, door: { open: false } }

const linesText = Type.String({
  description:
    'A line for each message, at most `ingest.lines_max` and `http.body_bytes_max`: an object with its `payload`, a SenML pack or a JSON document, and perhaps its `subtopic`, which follows that of the path. All messages are durable then, or none. The error of a message names its line, from 1.',
})
const exampleLines =
  '{"payload":[{"n":"temperature","v":21.5}]}\n{"subtopic":"attic.weather","payload":{"temperature":21.5,"humidity":48.2}}\n'

const bytesOf = (contentSchema: TSchema, example: unknown) => ({ schema: Type.Unsafe<Buffer>({ contentSchema, examples: [example] }) })
const senml = {
  'application/senml+json': bytesOf(senmlPack, examplePack),
  'application/senml+cbor': bytesOf(
    Type.Unknown({ description: `The bytes of a SenML pack in CBOR (RFC 8428 §6), for example (in hex): \`${exampleCbor}\`.` }),
    `(bytes, not this text) ${exampleCbor}`,
  ),
}
const lines = { [linesType]: bytesOf(linesText, exampleLines) }

const accepted = Type.Object(
  {
    id: text("The message's id, `<log>-<partition>-<offset>`; the log is its number in the store, or the topic's name.", '1-7-1027'),
    ids: Type.Optional(Type.Array(Type.String(), { description: 'Instead, of `application/x-ndjson`: the id of each message, in order.' })),
  },
  { title: 'PublishedMessage', description: 'The message is durable.' },
)

const described = {
  tags: ['messages'],
  security: [{ thing: [] }, { user: [] }],
  response: { 202: accepted, ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden') },
}
const strict =
  'With `Prefer: handling=strict`, and for a thing of a user with bounds, the payload is decoded first; one that would become a dead letter gets 400 with the rule that it violates.'
const many = 'Many messages: `application/x-ndjson`.'
const compressed = 'The body may be compressed: `Content-Encoding: gzip` or `zstd`.'
const certificate =
  'If enabled by `ingest.client_certificates`, a client certificate of the thing can be used instead of its key; of a user, only an API key that may publish.'

export const publishSchema = {
  ...described,
  operationId: 'publish',
  summary: 'Publish a message',
  description: `A SenML pack. A JSON document needs a subtopic. ${many} ${strict} ${certificate} ${compressed}`,
  params: Type.Object({ channel: channelParameter }),
  body: { content: { ...senml, ...lines } },
}

export const publishUnderSchema = {
  ...described,
  operationId: 'publishUnder',
  summary: 'Publish a message under a subtopic',
  description: `A JSON document, whose format is the last part of the subtopic, or a SenML pack. ${many} ${strict} ${certificate} ${compressed}`,
  params: Type.Object({
    channel: channelParameter,
    '*': Type.String({
      description: 'The subtopic, its parts separated by / or . (at most 16 parts of 128 bytes, and 1,024 bytes in all).',
      examples: ['house.attic.weather'],
    }),
  }),
  body: { content: { 'application/json': bytesOf(document, exampleDocument), ...senml, ...lines } },
}
