// What `send` reads: whole files, lines and CSV, however they are split into chunks, and the line of each fault.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ToolError } from '../../../../bin/streams.ts'
import { type InputMessage, type InputOptions, readMessages } from '../../../../roles/tools/send/input.ts'
import { temporaryFolder } from '../../../temporary-folder.ts'

const address = { channel: 'c1', subtopic: 'room/attic', publisher: 't1', contentType: '' }
const limits = { payloadBytesMax: 1000, signal: new AbortController().signal }

interface Read {
  readonly messages: InputMessage[]
  /** Without the folder of the file. */
  readonly fault: string | undefined
}

async function read(name: string, content: string | Buffer, options: Pick<InputOptions, 'kind'> & Partial<InputOptions>): Promise<Read> {
  const path = join(temporaryFolder(), name)
  writeFileSync(path, content)
  const messages: InputMessage[] = []
  try {
    for await (const batch of readMessages(path, { address, ...limits, ...options })) messages.push(...batch.messages)
  } catch (error) {
    expect(error).toBeInstanceOf(ToolError)
    return { messages, fault: (error as Error).message.replace(/^"[^"]*\//, '"') }
  }
  return { messages, fault: undefined }
}

const textsOf = ({ messages }: Read): string[] => messages.map(({ payload }) => Buffer.from(payload).toString())

test.each([
  ['pack.senml', 'application/senml+json'],
  ['pack.senmlc', 'application/senml+cbor'],
  ['pack.CBOR', 'application/senml+cbor'],
  ['document.json', 'application/json'],
  ['pack', 'application/senml+json'],
])('%s is one message of the type %s, byte for byte', async (name, contentType) => {
  const content = Buffer.from([0x81, 0xa0, 0x0a, 0x0d, 0x00])
  const { messages, fault } = await read(name, content, { kind: 'whole' })
  expect(fault).toBeUndefined()
  expect(messages).toEqual([{ channel: 'c1', subtopic: 'room.attic', publisher: 't1', contentType, payload: content }])
})

test('the id of a channel is sent in the form in which it is stored', async () => {
  const sent = '7ACB5F9E-3C0E-4A57-9D0A-5F9F0A3C1B77'
  const { messages } = await read('pack', '[]', { kind: 'whole', address: { ...address, channel: sent } })
  expect(messages[0]!.channel).toBe(sent.toLowerCase())
})

test('a given content type counts more than the name of the file', async () => {
  const given = { ...address, contentType: 'application/senml+json' }
  const { messages } = await read('pack.json', '[]', { kind: 'whole', address: given })
  expect(messages[0]!.contentType).toBe('application/senml+json')
})

test('each line is a message, without its end; empty lines are left out', async () => {
  expect(textsOf(await read('a.ndjson', '{"a":1}\r\n\n{"a":2}\n \n{"a":3}', { kind: 'lines' }))).toEqual([
    '{"a":1}',
    '{"a":2}',
    ' ',
    '{"a":3}',
  ])
})

test('lines that end anywhere in a chunk stay whole, and keep their numbers', async () => {
  const lines = Array.from({ length: 5000 }, (_, at) => `${at} ${'x'.repeat(at % 97)}`)
  const all = await read('a', lines.join('\n'), { kind: 'lines' })
  expect(textsOf(all)).toEqual(lines)
  const { messages, fault } = await read('a', `${lines.join('\n')}\n${'y'.repeat(1001)}\nz`, { kind: 'lines' })
  expect(messages).toHaveLength(5000)
  expect(fault).toMatch(/^"a":5001: the payload is larger than the 1000 bytes that are accepted/)
})

test('a line without an end is refused before it fills the memory', async () => {
  const { fault } = await read('a', `ok\n${'x'.repeat(1 << 20)}`, { kind: 'lines' })
  expect(fault).toBe('"a":2: the line is longer than 1002 bytes: send smaller messages')
})

test('a row is a document: numbers keep their digits, everything else is text, and an empty cell is left out', async () => {
  const csv = '\uFEFFchannel,speed,serial,big,huge,sign,note\r\nc2,1.50,007,8659456789564231564,1e999,-0,"a ""b"",\nc"\r\n,2,,,,,\r\n'
  const all = await read('a.csv', csv, { kind: 'csv' })
  expect(textsOf(all)).toEqual([
    '{"speed":1.50,"serial":"007","big":8659456789564231564,"huge":"1e999","sign":-0,"note":"a \\"b\\",\\nc"}',
    '{"speed":2}',
  ])
  expect(all.messages.map(({ channel, contentType }) => [channel, contentType])).toEqual([
    ['c2', 'application/json'],
    ['c1', 'application/json'],
  ])
})

test('a column payload is the payload, and columns stand for the options', async () => {
  const csv = 'payload,subtopic,publisher,content_type\n"[{""n"":""a"",""v"":1}]",x/y,t2,application/senml+json\n[],,,\n'
  const { messages } = await read('a.csv', csv, { kind: 'csv' })
  expect(messages.map(({ payload, ...rest }) => ({ ...rest, payload: Buffer.from(payload).toString() }))).toEqual([
    { channel: 'c1', subtopic: 'x.y', publisher: 't2', contentType: 'application/senml+json', payload: '[{"n":"a","v":1}]' },
    { channel: 'c1', subtopic: 'room.attic', publisher: 't1', contentType: 'application/senml+json', payload: '[]' },
  ])
})

test('rows with quoted line ends stay whole across chunks, and keep their lines', async () => {
  const rows = Array.from({ length: 4000 }, (_, at) => `"${at}\n""${'é'.repeat(at % 50)}"`)
  const all = await read('a.csv', `text\n${rows.join('\n')}\n`, { kind: 'csv' })
  expect(textsOf(all)).toEqual(rows.map((_, at) => JSON.stringify({ text: `${at}\n"${'é'.repeat(at % 50)}` })))
  const { messages, fault } = await read('a.csv', `text\n${rows.join('\n')}\n1,2\n`, { kind: 'csv' })
  expect(messages).toHaveLength(4000)
  expect(fault).toBe('"a.csv":8002: 2 cells, but 1 columns: give each row a cell for each column')
})

test.each([
  ['empty', '', 'whole', /^"a\.csv": the payload is empty/],
  ['an empty table', '', 'csv', /^"a\.csv" is empty: begin it with a row of column names/],
  ['two columns of a name', 'a,a\n1,2\n', 'csv', /^"a\.csv":1: two columns are called "a"/],
  ['a hostile name', '\u001b[2J,\u001b[2J\n1,2\n', 'csv', /^"a\.csv":1: two columns are called "\\u001b\[2J"/],
  ['a payload and fields', 'payload,b\n1,2\n', 'csv', /^"a\.csv":1: the column payload is the whole payload: remove the column b/],
  ['no data', 'channel\nc1\n', 'csv', /^"a\.csv":1: no column has data/],
  ['an open quote', 'a\n1\n"2\n', 'csv', /^"a\.csv":3: unbalanced quote/],
  ['no UTF-8', Buffer.from('a\n\xff\n', 'latin1'), 'csv', /^"a\.csv":1: this row or one of the next is not UTF-8/],
  ['an empty payload', 'channel,payload\nc1,\n', 'csv', /^"a\.csv":2: the payload is empty/],
  ['a subtopic with a wildcard', 'subtopic,a\nx.*,1\n', 'csv', /^"a\.csv":2: a part of the subtopic contains \* or >/],
  ['a reserved format', 'subtopic,a\nx.messages,1\n', 'csv', /^"a\.csv":2: a JSON document needs a subtopic.*not "messages"/],
  ['too large a payload', `a\n1\n${'x'.repeat(1001)}\n`, 'csv', /^"a\.csv":3: the payload is larger than the 1000 bytes/],
  ['too large a row', `a\n1\n"${'x'.repeat(200_000)}`, 'csv', /^"a\.csv":3: the line is longer than 67536 bytes/],
  ['too large a file', 'x'.repeat(1001), 'whole', /^"a\.csv": the payload is larger than the 1000 bytes/],
] as const)('%s is named, with its line', async (_what, content, kind, says) => {
  expect((await read('a.csv', content, { kind })).fault).toMatch(says)
})

test('a message without a channel, and a document without a format, say what to give', async () => {
  const none = { ...address, channel: '' }
  expect((await read('a', '[]', { kind: 'whole', address: none })).fault).toMatch(/^"a": no channel: give its id with --channel/)
  const bare = { ...address, subtopic: '' }
  expect((await read('a.json', '{}', { kind: 'whole', address: bare })).fault).toMatch(/^"a\.json": a JSON document needs a subtopic/)
})

test('an input that is ended returns no part of a message', async () => {
  const path = join(temporaryFolder(), 'a')
  writeFileSync(path, `${'x'.repeat(900)}\n`.repeat(500))
  const stop = new AbortController()
  let messages = 0
  for await (const batch of readMessages(path, { address, ...limits, kind: 'lines', signal: stop.signal })) {
    stop.abort()
    messages += batch.messages.length
    expect(batch.messages.filter(({ payload }) => payload.length !== 900)).toEqual([])
  }
  expect(messages).toBeLessThan(500)
  for (const kind of ['whole', 'csv'] as const) {
    expect(await read('a', '"a\nb', { kind, signal: stop.signal })).toEqual({ messages: [], fault: undefined })
  }
})
