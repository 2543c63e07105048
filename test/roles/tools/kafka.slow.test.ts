// The tools on the command line with a real Kafka and a real PostgreSQL: dlq, verify and trace after a writer's work.

import { spawn } from 'node:child_process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import type { VerifyReport } from '../../../pipeline/audit/verify.ts'
import { deadLettersTopicConfig } from '../../../pipeline/dead-letters/topic-config.ts'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { openKafkaTopicReader } from '../../../pipeline/kafka/topic-reader.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'
import { type DeadLetter, deadLettersTopic, openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { main } from '../../bin/command.ts'
import { connectionTo } from '../../pipeline/kafka/consumer/source-parts.ts'
import { logSettings, silent } from '../../pipeline/kafka/stored-messages.ts'
import { outgoing } from '../../pipeline/message.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { type RunningWriter, startWriter } from './writer.ts'

interface Ended {
  readonly code: number | null
  readonly output: string
  readonly errors: string
}

const senml = (payload: string, fields: Partial<OutgoingMessage> = {}): OutgoingMessage =>
  outgoing({ payload: new TextEncoder().encode(payload), ...fields })
const json = (format: string, channel = 'c1'): OutgoingMessage =>
  senml('{"speed":1}', { channel, contentType: 'application/json', subtopic: format })

describeWithKafka('the tools', kafka =>
  describeWithPostgres('on a writer of PostgreSQL', postgres => {
    const partitions = 3
    let topic: string
    let url: string
    let database: Database
    let writer: RunningWriter
    let environment: Record<string, string>

    async function tool(...words: string[]): Promise<Ended> {
      const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('SVC_') && !name.startsWith('VITEST'))
      const child = spawn(process.execPath, [main, ...words], { env: { ...Object.fromEntries(kept), ...environment } })
      let [output, errors] = ['', '']
      child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
      child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text))
      child.stdin.end()
      const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve))
      return { code, output, errors }
    }

    async function said(...words: string[]): Promise<string> {
      const { code, output, errors } = await tool(...words)
      expect({ code, errors }).toEqual({ code: 0, errors: '' })
      return output
    }

    const report = async (): Promise<VerifyReport> => JSON.parse((await tool('verify', 'relational', '--json')).output) as VerifyReport

    /** Appends and waits until the writer has passed all of it. */
    async function stored(messages: readonly OutgoingMessage[]): Promise<string[]> {
      const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
      const positions = await log.append(messages)
      await log.close()
      await settled(topic)
      return positions.map(({ partition, offset }) => `1-${partition}-${offset}`)
    }

    /** Waits until the store's positions are the ends of a topic. */
    async function settled(name: string): Promise<void> {
      const reader = await openKafkaTopicReader({ connection: connectionTo(kafka.brokers), topic: name, fetchBytes: 1 << 20 })
      const bounds = await reader.bounds()
      await reader.close()
      for (;;) {
        const rows = await database.query<{ partition: number; next_offset: bigint }>(
          'SELECT partition, next_offset FROM sluice.offsets JOIN sluice.logs ON log = number WHERE name = $1',
          [name],
        )
        const next = new Map(rows.map(row => [row.partition, Number(row.next_offset)]))
        if ([...bounds].every(([partition, { end }]) => end === 0 || (next.get(partition) ?? 0) >= end)) return
        await new Promise(resolve => setTimeout(resolve, 50))
      }
    }

    beforeAll(async () => {
      topic = await kafka.createTopic({ partitions })
      url = await postgres.createDatabase()
      database = await openServer({ url, applicationName: 'operator', connectionsMax: 2 })
      writer = await startWriter(kafka.brokers, topic, url, { formatsPerChannelMax: 1 })
      environment = { SVC_LOG_BROKERS: kafka.brokers.join(','), SVC_LOG_TOPIC: topic, SVC_RELATIONAL_URL: url }
    })

    afterAll(async () => {
      await writer.stop()
      await database.close()
    })

    let bad: string
    let refused: string
    let good: string

    test('verify confirms a store with every kind of message, with exit code 0', async () => {
      const many = Array.from({ length: 3000 }, (_, at) => senml(`[{"n":"a","v":${at}},{"n":"b","v":${at}}]`, { channel: `c${at % 7}` }))
      ;[good] = (await stored([senml('[{"n":"a","v":1},{"n":"b","v":2}]', { channel: 'c9' })])) as [string]
      await stored(many)
      ;[bad] = (await stored([
        senml('[{"n":"a","v":1,"vs":"\\u001b]0;owned\\u0007"},{"n":"b"}]\u001b[2J', { headers: [{ key: 'trace', value: 'x' }] }),
      ])) as [string]
      await stored([
        senml('[]', { contentType: 'application/json', subtopic: 'first' }),
        senml('x'.repeat(300 * 1024)),
        senml('[{"n":"a","v":1}]', { channel: '' }),
        json('first'),
      ])
      ;[refused] = (await stored([json('second')])) as [string]
      const output = await said('verify', 'relational')
      expect(output).toContain(`log ${topic} (1 in the store), writer relational`)
      expect(output).toMatch(/ok: 3007 messages in 3 partitions, 0 more in flight\n$/)
      const { partitions: counted } = await report()
      const sum = (name: 'received' | 'stored' | 'empty' | 'dead_lettered'): number =>
        counted.reduce((all, { recount }) => all + recount[name], 0)
      expect((['received', 'stored', 'empty', 'dead_lettered'] as const).map(sum)).toEqual([3007, 3002, 1, 4])
    })

    test('dlq ls lists the letters, show prints one, and text from a device cannot control the terminal', async () => {
      const listed = await said('dlq', 'ls')
      expect(listed.split('\n')[0]).toMatch(/^ID +STATE +RULE +CHANNEL +SUBTOPIC +RECORD +REASON$/)
      expect(listed).toContain('format-limit')
      expect(listed).toContain('payload-size')
      expect(listed).toContain('no-key')
      const shown = await said('dlq', 'show', bad)
      expect(shown).toMatch(new RegExp(`^message +${bad}, of the topic ${topic}$`, 'm'))
      expect(shown).toMatch(/^header +trace: x$/m)
      expect(shown).toContain('\\u001b[2J')
      for (const text of [listed, shown, (await said('dlq', 'ls', '--json')) + (await said('dlq', 'show', bad, '--json'))]) {
        expect(text.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u)
      }
      const lines = (await said('dlq', 'ls', '--rule', 'format-limit', '--json')).trim().split('\n')
      expect(lines.map(line => JSON.parse(line).id)).toEqual([refused])
      expect((await tool('dlq', 'show', '1-0-99999')).errors).toMatch(/^no dead letter has the id 1-0-99999.*\n$/)
    })

    test('trace reports a stored, a refused and an undecodable message, by any form of their ids', async () => {
      const [, partition, offset] = good.split('-')
      const printed = await said('trace', `${topic}-${partition}-${offset}`, 'relational', '--reader', 'http://reader:9092/')
      const statement = /^statement +(SELECT .* WHERE channel = 'c9' .*;)\n/m.exec(printed)![1]!
      expect(await database.query(statement)).toMatchObject([{ channel: 'c9' }, { channel: 'c9' }])
      expect(printed).toBe(
        [
          `message      ${good}, of the log ${topic}`,
          'received     2023-11-14T22:13:20.000000000Z by http, 33 bytes, application/senml+json',
          '             channel c9, subtopic room.temperature, publisher t1',
          'matched      the writer relational',
          'decoded      2 records of the format messages',
          'stored       2 rows',
          'read         GET http://reader:9092/channels/c9/messages',
          `statement    ${statement}`,
          '',
        ].join('\n'),
      )
      const badTrace = await said('trace', bad)
      expect(badTrace).toMatch(/^decoded {6}no: .*\(rule /m)
      expect(badTrace).toMatch(/^dead letter {2}open: /m)
      expect(await said('trace', refused)).toMatch(/^dead letter {2}open: .*\(rule format-limit\)/m)
      expect((await tool('trace', 'others-0-0')).errors).toMatch(/^the message is from the log "others"/)
    })

    test('verify and trace look at the dead letters of the writer that owns the store, and at no others', async () => {
      const says = 'the store belongs to writer relational: use --writer relational, or omit it\n'
      for (const words of [
        ['verify', 'relational'],
        ['trace', bad],
      ]) {
        expect(await tool(...words, '--writer', 'beta')).toEqual({ code: 2, output: '', errors: says })
        expect((await tool(...words, '--writer', 'relational')).code).toBe(0)
      }
      const before = environment
      environment = { ...before, SVC_LOG_GROUP: 'beta' }
      expect(await said('verify', 'relational')).toMatch(/^ok: /m)
      expect(await said('trace', bad)).toMatch(/^dead letter {2}open: /m)
      environment = before
    })

    /** A dead-letter topic without a writer: 60 small letters around one of more than a mebibyte. */
    async function lettersOf(name: string): Promise<void> {
      const settings = logSettings(kafka.brokers, deadLettersTopic(topic, name), { partitions: 1 })
      const log = await openKafkaLog(settings, silent, deadLettersTopicConfig(256 * 1024))
      const deadLetter = (offset: number, payload: string): DeadLetter => {
        const rejection = { message: 0, rule: 'payload-size', reason: 'too large' }
        return { stage: 'decode', at: logPartition(0, 0), offset, rejection, message: senml(payload) }
      }
      const deadLetters = Array.from({ length: 61 }, (_, at) => deadLetter(at, at === 30 ? 'x'.repeat(1100 * 1024) : '[]'))
      await openDeadLetters({ logOf: async () => log, topics: [topic], logIds: [''], logNumbers: [1], writer: name }).put(deadLetters)
      await log.close()
    }

    test('letters of a writer that does not own the store are listed, and stay open in a replay', async () => {
      await lettersOf('large')
      const listed = (await said('dlq', 'ls', '--writer', 'large', '--json')).trim().split('\n')
      expect(listed.map(line => JSON.parse(line).id)).toEqual(Array.from({ length: 61 }, (_, at) => `1-0-${at}`))
      expect((await said('dlq', 'ls', '--writer', 'large', '--json', '--limit', '7')).trim().split('\n')).toHaveLength(7)
      expect(await said('dlq', 'ls', '--writer', 'large')).toMatch(/\nand 11 older ones: list more with --limit/)
      const { code, output, errors } = await tool('dlq', 'replay', '--rule', 'payload-size', '--writer', 'large')
      expect({ code, output }).toEqual({ code: 1, output: '0 dead letters replayed: stored and no longer open\n' })
      expect(errors).toMatch(/1-0-0 stays open: the store has no log 1 of the topic .* and the writer large: .* check --writer/)
    })

    test('letters that the options still refuse stay open with their reason, in a dry run and in a replay', async () => {
      for (const [words, says] of [
        [['--dry-run'], '0 dead letters would be replayed\n'],
        [[], '0 dead letters replayed: stored and no longer open\n'],
      ] as const) {
        const { code, output, errors } = await tool('dlq', 'replay', '--rule', 'payload-size', ...words)
        expect([code, output]).toEqual([1, says])
        expect(errors).toMatch(/^1-\d-\d+ stays open: payload-size: the payload's 307200 bytes exceed the limit of 262144/)
      }
      expect(await said('dlq', 'ls', '--rule', 'payload-size')).toMatch(/ open +payload-size /)
    })

    test('with other options a message is stored once, however often it is replayed; verify still passes', async () => {
      const before = environment
      environment = { ...before, SVC_STORE_FORMATS_PER_CHANNEL_MAX: '1' }
      expect((await tool('dlq', 'replay', refused)).errors).toMatch(/stays open: format-limit: /)
      environment = before
      expect(await said('dlq', 'replay', refused)).toMatch(/^1 dead letter replayed/)
      expect(await said('dlq', 'replay', refused)).toMatch(/^1 dead letter replayed/)
      expect(await said('dlq', 'ls', '--rule', 'format-limit')).toBe('no matching dead letters\n')
      const [, partition, offset] = refused.split('-')
      const rows = await database.query<{ position: bigint; created: bigint }>('SELECT position, created FROM formats.second')
      expect(rows).toEqual([{ position: (1n << 56n) | (BigInt(partition!) << 44n) | BigInt(offset!), created: 1_700_000_000_000_000_000n }])
      expect(await said('trace', refused)).toMatch(/^stored {7}1 row$/m)

      const output = await said('verify', 'postgres')
      expect(output).toContain('of the dead-lettered, 1 were replayed and are stored')
      expect(output).toMatch(/^ok: /m)
    })

    test('dropped letters are listed only with --all; an id without a letter is reported', async () => {
      expect(await said('dlq', 'drop', bad)).toBe('1 dead letter dropped\n')
      expect(await said('dlq', 'ls')).not.toContain(bad)
      expect(await said('dlq', 'ls', '--all')).toMatch(new RegExp(`^${bad} +dropped`, 'm'))
      const { code, output, errors } = await tool('dlq', 'drop', '1-0-99999')
      expect({ code, output }).toEqual({ code: 1, output: expect.stringMatching(/^nothing was done: no open dead letter/) })
      expect(errors).toBe('no dead letter has the id 1-0-99999\n')
      expect((await tool('dlq', 'drop')).errors).toMatch(/^no dead letters selected to drop/)
      expect(await said('dlq', 'drop', '--all')).toMatch(/^\d dead letters dropped\n$/)
      expect(await said('dlq', 'ls')).toBe('no matching dead letters\n')
      expect((await report()).holds).toBe(true)
    })

    test('verify works while the writer does, and counts what is in flight', async () => {
      const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
      const stop = new AbortController()
      const load = (async () => {
        for (let at = 0; !stop.signal.aborted; at++)
          await log.append(Array.from({ length: 50 }, () => senml(`[{"n":"a","v":${at}}]`, { channel: `c${at % 7}` })))
      })()
      for (let round = 0; round < 3; round++) expect(await report()).toMatchObject({ holds: true })
      stop.abort()
      await load
      await log.close()
      await settled(topic)
    })

    test('missing, duplicated and surplus rows are found in the store, with exit code 1', async () => {
      const [, partition, offset] = good.split('-')
      const position = (1n << 56n) | (BigInt(partition!) << 44n) | BigInt(offset!)
      const rows = await database.query('DELETE FROM sluice.records WHERE position = $1 AND index = 0 RETURNING index', [position])
      expect(rows).toHaveLength(1)
      const { code, output } = await tool('verify', 'relational')
      expect(code).toBe(1)
      expect(output).toContain(`${good} rows missing: the store has 1 of its 2 rows`)
      expect(output).toMatch(/faults in 1 of 3 partitions\n$/)

      await database.query('DELETE FROM sluice.records WHERE position = $1', [position])
      expect((await tool('verify', 'relational')).output).toContain(
        `${good} missing: none of its 2 rows is stored, and it has no dead letter`,
      )
      const missing = await tool('trace', good)
      expect([missing.code, missing.errors]).toEqual([1, ''])
      expect(missing.output).toContain('NO, and there is no dead letter: the message is missing')
      await database.execute(`INSERT INTO sluice.records SELECT * FROM sluice.records LIMIT 1`)
      const { partitions } = await report()
      expect(partitions.map(({ faults }) => faults.doubled ?? 0).reduce((one, other) => one + other)).toBe(1)
    })

    test('logs lists the logs of the store, and frees the number of one without rows', async () => {
      await database.execute(`
        INSERT INTO sluice.logs (number, name, id, writer, accepted_at, content_types) VALUES
          (2, '${topic}', 'earlier', 'relational', '2026-01-01', NULL), (3, '${topic}', 'earlier', 'other', '2026-01-01', '{application/json}'),
          (4, '${topic}', 'later', 'other', '2026-02-01', '{other}');
        INSERT INTO sluice.offsets (writer, log, partition, next_offset) VALUES ('relational', 2, 0, 5)`)
      const listed = (await said('logs', 'relational')).split('\n').map(line => line.split(/ {2,}/))
      expect(listed.slice(2, 5)).toEqual([
        ['2', topic, 'earlier', 'relational', 'all', '2026-01-01T00:00:00.000Z'],
        ['3', topic, 'earlier', 'other', 'application/json', '2026-01-01T00:00:00.000Z'],
        ['4', topic, 'later', 'other', 'other', '2026-02-01T00:00:00.000Z', 'current'],
      ])
      expect([listed[1]![0], listed[1]!.at(-1)]).toEqual(['1', 'current'])
      const first = JSON.parse((await said('logs', 'relational', '--json')).split('\n')[0]!) as object
      expect(first).toMatchObject({ number: 1, log: topic, writer: 'relational', content_types: null, current: true })

      expect((await tool('logs', 'relational', '--free', '1')).errors).toMatch(/stop all its processes first/)
      // The first is an earlier log, the other the current one of a topic that does not exist.
      await database.execute(`INSERT INTO sluice.logs (number, name, id, writer) VALUES (5, '${topic}-deleted', 'gone', 'relational')`)
      for (const number of ['2', '5']) expect(await said('logs', 'relational', '--free', number)).toBe(`number ${number} is free\n`)
      expect(await database.query('SELECT number FROM sluice.logs ORDER BY number')).toEqual([1, 3, 4].map(number => ({ number })))
      expect(await database.query('SELECT log FROM sluice.offsets WHERE log = 2')).toEqual([])
    })

    test('misuse is exit code 2, with an error', async () => {
      const misuses: [words: string[], says: RegExp, environment?: Record<string, string>][] = [
        [['verify'], /missing required argument/],
        [['verify', 'graph'], /unknown store "graph"/],
        [['verify', 'relational', '--nonsense'], /unknown option/],
        [['verify', 'relational'], /SVC_RELATIONAL_URL/, { SVC_LOG_BROKERS: environment.SVC_LOG_BROKERS!, SVC_LOG_TOPIC: topic }],
        [['verify', 'relational'], /the topic absent does not exist/, { ...environment, SVC_LOG_TOPIC: 'absent' }],
        [['verify', 'relational'], /cannot be reached/, { ...environment, SVC_LOG_BROKERS: '127.0.0.1:1' }],
        [
          ['verify', 'relational'],
          /PostgreSQL at 127\.0\.0\.1:1/,
          { ...environment, SVC_RELATIONAL_URL: 'postgres://x:secret@127.0.0.1:1/x' },
        ],
        [['verify', 'relational', '--config', '/absent.toml'], /absent\.toml/],
      ]
      const before = environment
      for (const [words, says, other = before] of misuses) {
        environment = other
        const { code, output, errors } = await tool(...words)
        expect({ code, output }).toEqual({ code: 2, output: '' })
        expect(errors).toMatch(says)
        expect(errors).not.toMatch(/^\s+at |secret/m)
      }
      environment = before
    })
  }),
)
