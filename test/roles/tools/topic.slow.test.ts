// `send` and `tail` as they are typed, over a real broker: what is sent is what the pipeline reads, and what others write is shown.

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { openKafkaTopicReader } from '../../../pipeline/kafka/topic-reader.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'
import { type Ended, main, onTerminal, sluice } from '../../bin/command.ts'
import { inDepth } from '../../depth.ts'
import { connectionTo, openTools, type Tools } from '../../pipeline/kafka/consumer/source-parts.ts'
import { logSettings, readTopic, silent } from '../../pipeline/kafka/stored-messages.ts'
import { outgoing } from '../../pipeline/message.ts'
import { describeWithKafka, describeWithOwnKafka, type KafkaAccess } from '../../servers/kafka.ts'
import { temporaryFolder } from '../../temporary-folder.ts'

interface Read {
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  readonly contentType: string
  readonly payload: string
}

/** What the pipeline's own client reads, each partition in its order. */
async function readByPipeline(kafka: KafkaAccess, topic: string): Promise<Read[]> {
  const reader = await openKafkaTopicReader({ connection: connectionTo(kafka.brokers), topic, fetchBytes: 1 << 20 })
  const all: Read[] = []
  for (const [partition, { start, end }] of await reader.bounds()) {
    for await (const chunk of reader.read(partition, start, end)) {
      const cursor = chunk.cursor()
      while (cursor.next()) {
        const { fault, channel, subtopic, publisher, protocol, contentType, createdUs, payload } = cursor.message
        expect(fault).toBeUndefined()
        expect(Math.abs(Date.now() - createdUs / 1000)).toBeLessThan(600_000)
        all.push({ channel, subtopic, publisher, protocol, contentType, payload: Buffer.from(payload).toString() })
      }
    }
  }
  await reader.close()
  return all
}

const numbersOf = (messages: readonly Read[]): number[] => messages.map(({ payload }) => Number(/\d+/.exec(payload)![0]))
const ended = async (child: ChildProcessWithoutNullStreams): Promise<Ended> => {
  let [output, errors] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => (output += chunk))
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk))
  const code = await new Promise<number | null>(resolve => child.on('close', resolve))
  return { code, output: Buffer.from(output), errors }
}
/** A broker's first group may find its coordinator loading; then tail says so, and goes on. */
const withoutLoading = (errors: string): string => errors.replaceAll(/^the topic .* cannot be read \(.*coordinator.*; retrying\n/gm, '')
const start = (words: readonly string[], environment: Record<string, string>): ChildProcessWithoutNullStreams =>
  spawn(process.execPath, [main, ...words], { env: { ...process.env, ...environment } })

describeWithKafka('the tools of a topic', kafka => {
  let topic: string
  let environment: Record<string, string>
  let others: Tools

  const on = (name: string): Record<string, string> => ({ SVC_LOG_BROKERS: kafka.brokers.join(','), SVC_LOG_TOPIC: name })
  const run = (words: readonly string[], input?: string | Uint8Array): Promise<Ended> => sluice(words, input, environment)

  async function said(words: readonly string[], input?: string | Uint8Array): Promise<string> {
    const { code, output, errors } = await run(words, input)
    expect({ code, errors: withoutLoading(errors) }).toEqual({ code: 0, errors: '' })
    return output.toString()
  }

  async function append(messages: readonly OutgoingMessage[]): Promise<void> {
    const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
    await log.append(messages)
    await log.close()
  }

  const tailGroups = async (): Promise<string[]> =>
    (await others.admin.listGroups()).groups.map(({ groupId }) => groupId).filter(group => group.startsWith('sluice-tail-'))

  beforeAll(async () => {
    others = await openTools(kafka.brokers)
  })
  afterAll(() => others.close())
  beforeEach(async () => {
    topic = await kafka.createTopic({ partitions: 3 })
    environment = on(topic)
  })

  test('each kind of input is in the topic as the pipeline reads it', async () => {
    const folder = temporaryFolder()
    const pack = join(folder, 'pack.senml')
    const csv = join(folder, 'readings.csv')
    writeFileSync(pack, '[{"n":"a","v":1}]')
    writeFileSync(csv, 'channel,subtopic,speed,id\nc2,gps,1.5,8659456789564231564\nc3,gps,2,007\n')
    const count = (n: number): string => `sent ${n} messages to ${topic}\n`
    const to = ['--channel', 'c1', '--publisher', 't1']
    expect(await said(['send', pack, pack, ...to, '--subtopic', 'a/b'])).toBe(count(2))
    expect(await said(['send', ...to], Buffer.from('[{"n":"b","v":2}]'))).toBe(count(1))
    expect(await said(['send', '--lines', '-', ...to, '--content-type', 'application/json', '--subtopic', 'x'], '{"l":1}\n{"l":2}\n')).toBe(
      count(2),
    )
    expect(await said(['send', '--csv', csv])).toBe(count(2))
    const common = { channel: 'c1', publisher: 't1', protocol: 'kafka', contentType: 'application/senml+json' }
    const document = { ...common, contentType: 'application/json' }
    const messages = await readByPipeline(kafka, topic)
    expect(messages.filter(({ channel }) => channel === 'c1')).toEqual([
      { ...common, subtopic: 'a.b', payload: '[{"n":"a","v":1}]' },
      { ...common, subtopic: 'a.b', payload: '[{"n":"a","v":1}]' },
      { ...common, subtopic: '', payload: '[{"n":"b","v":2}]' },
      { ...document, subtopic: 'x', payload: '{"l":1}' },
      { ...document, subtopic: 'x', payload: '{"l":2}' },
    ])
    expect(messages.find(({ channel }) => channel === 'c2')).toEqual({
      ...document,
      channel: 'c2',
      publisher: '',
      subtopic: 'gps',
      payload: '{"speed":1.5,"id":8659456789564231564}',
    })
    expect(messages.find(({ channel }) => channel === 'c3')!.payload).toBe('{"speed":2,"id":"007"}')
  })

  test('a channel is in the partition where ingest puts it, in its order', async () => {
    const channels = Array.from({ length: 20 }, (_, at) => `channel ${at}`)
    const rows = Array.from({ length: 5000 }, (_, at) => `${channels[at % 20]},x,${at}`)
    expect(await said(['send', '--csv'], `channel,subtopic,n\n${rows.join('\n')}\n`)).toBe(`sent 5,000 messages to ${topic}\n`)
    const sent = await readByPipeline(kafka, topic)
    for (const channel of channels) {
      const numbers = numbersOf(sent.filter(message => message.channel === channel))
      expect(numbers).toEqual(numbers.toSorted((left, right) => left - right))
      expect(numbers).toHaveLength(250)
    }
    await append(channels.map(channel => outgoing({ channel })))
    const partitions = new Map<string, Set<number>>()
    for (const { key, partition } of await readTopic(kafka.brokers, topic)) {
      partitions.set(key!.toString(), (partitions.get(key!.toString()) ?? new Set()).add(partition))
    }
    expect([...partitions.values()].map(({ size }) => size)).toEqual(channels.map(() => 1))
  })

  test('a faulty line ends it, after everything before was sent', async () => {
    const input = `[1]\n\n[2]\n${'x'.repeat(300_000)}\n[3]\n`
    const { code, output, errors } = await run(['send', '--lines', '--channel', 'c1'], input)
    expect([code, output.toString()]).toEqual([1, `stopped: sent 2 messages to ${topic}\n`])
    expect(errors).toMatch(/^standard input:4: the (line|payload) is (longer|larger) than .*\n$/)
    expect(await readByPipeline(kafka, topic)).toHaveLength(2)
  })

  inDepth(() => {
    test('a rate is not exceeded, and Ctrl-C ends it with the number of acknowledged messages', async () => {
      const startMs = performance.now()
      const child = start(['send', '--lines', '--channel', 'c1', '--rate', '50'], environment)
      const result = ended(child)
      for (let at = 0; at < 1000; at++) child.stdin.write(`[${at}]\n`)
      await expect.poll(async () => (await readTopic(kafka.brokers, topic)).length).toBeGreaterThan(60)
      child.kill('SIGINT')
      const { code, output, errors } = await result
      const seconds = (performance.now() - startMs) / 1000
      expect({ code, errors }).toEqual({ code: 1, errors: '' })
      const sent = Number(/^stopped: sent (\d+) messages to /.exec(output.toString())![1])
      expect(numbersOf(await readByPipeline(kafka, topic))).toEqual(Array.from({ length: sent }, (_, at) => at))
      expect(sent).toBeLessThanOrEqual(50 * seconds)
    })
  })

  inDepth(() => {
    test('standard input is read no faster than it is sent', async () => {
      const child = start(['send', '--lines', '--channel', 'c1', '--rate', '1'], environment)
      const result = ended(child)
      child.stdin.on('error', () => undefined)
      const line = `${'x'.repeat(60_000)}\n`
      let writtenBytes = 0
      const writeMore = (): void => {
        while (writtenBytes < 64 << 20) {
          writtenBytes += line.length
          if (!child.stdin.write(line)) return
        }
      }
      child.stdin.on('drain', writeMore)
      writeMore()
      await expect.poll(async () => (await readTopic(kafka.brokers, topic)).length).toBeGreaterThan(1)
      expect(writtenBytes).toBeLessThan(4 << 20)
      child.kill('SIGINT')
      expect((await result).code).toBe(1)
    })
  })

  inDepth(() => {
    test('a file shows a bar on a terminal', async () => {
      const file = join(temporaryFolder(), 'lines')
      writeFileSync(file, '[1]\n'.repeat(300_000))
      const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`)
      const command = `${variables.join(' ')} '${process.execPath}' '${main}' send --lines '${file}' --channel c1`
      const { code, shown } = await onTerminal(command)
      expect(code).toBe(0)
      expect(shown).toMatch(/\[#*-*\] \d+ %, \d+ of 1200000 bytes sent/)
      expect(shown).toMatch(new RegExp(`sent 300,000 messages to ${topic}$`))
    })
  })

  inDepth(() => {
    test.each(['send', 'tail'])('%s: a topic that does not exist is said, and not created; nor is another encoding read', async tool => {
      const words = tool === 'send' ? ['send', '--channel', 'c1'] : ['tail']
      const { code, output, errors } = await sluice(words, '[]', on('absent'))
      expect([code, output.length]).toEqual([2, 0])
      expect(errors).toBe('the topic absent does not exist: create it, or correct log.topic (SVC_LOG_TOPIC)\n')
      const framed = { ...environment, SVC_LOG_ENCODING: 'confluent', SVC_LOG_REGISTRY: 'http://127.0.0.1:9' }
      expect((await sluice(words, '[]', framed)).errors).toMatch(/have the encoding confluent: this tool works on the encoding raw only\n$/)
      expect(await others.admin.listTopics()).not.toContain('absent')
    })
  })

  test('tail shows what arrives from now on, until --count, and leaves no group', async () => {
    await append([outgoing({ payload: Buffer.from('before') })])
    const child = start(['tail', '--count', '2'], environment)
    const result = ended(child)
    await expect.poll(async () => (await tailGroups()).length).toBe(1)
    const [group] = await tailGroups()
    await expect.poll(async () => (await others.admin.describeGroups([group!])).groups[0]!.state).toBe('Stable')
    await append([
      outgoing({ payload: Buffer.from('one\u001b[2J') }),
      outgoing({ channel: 'c2', subtopic: '', publisher: '', payload: Buffer.from('two') }),
    ])
    const { code, output, errors } = await result
    expect({ code, errors: withoutLoading(errors) }).toEqual({ code: 0, errors: '' })
    expect(output.toString().trim().split('\n').sort()).toEqual([
      '2023-11-14T22:13:20.000000000Z  c1  room.temperature  t1  one\\u001b[2J',
      '2023-11-14T22:13:20.000000000Z  c2  -  -  two',
    ])
    expect(await tailGroups()).toEqual([])
  })

  inDepth(() => {
    test('tail ends with 0 on Ctrl-C, and when its output is closed', async () => {
      await append(Array.from({ length: 100 }, () => outgoing()))
      for (const isClosed of [false, true]) {
        const child = start(['tail', '--from-beginning'], environment)
        const lines = createInterface(child.stdout)
        await new Promise(resolve => lines.once('line', resolve))
        const code = new Promise<number | null>(resolve => child.on('exit', resolve))
        if (isClosed) {
          child.stdout.destroy()
          await append([outgoing()])
        } else child.kill('SIGINT')
        expect(await code).toBe(0)
        expect(await tailGroups()).toEqual([])
      }
    })
  })

  inDepth(() => {
    test('tail goes on where it was after its group was rebalanced', async () => {
      topic = await kafka.createTopic()
      environment = on(topic)
      const numbered = (from: number): OutgoingMessage[] =>
        Array.from({ length: 10 }, (_, at) => outgoing({ payload: Buffer.from(String(from + at)) }))
      await append(numbered(0))
      const child = start(['tail', '--from-beginning', '--count', '20', '--json'], environment)
      const first = new Promise(resolve => child.stdout.once('data', resolve))
      const result = ended(child)
      await first
      const [groupId] = await tailGroups()
      const intruder = others.kafka.consumer({ groupId: groupId! })
      await intruder.connect()
      await intruder.subscribe({ topic })
      // It has joined when this resolves; an earlier disconnect would leave it running.
      await intruder.run({ autoCommit: false, eachMessage: async () => undefined })
      await intruder.disconnect()
      await append(numbered(10))
      const { code, output } = await result
      const payloads = output
        .toString()
        .trim()
        .split('\n')
        .map(line => Number((JSON.parse(line) as { payload: string }).payload))
      expect([code, payloads]).toEqual([0, Array.from({ length: 20 }, (_, at) => at)])
    })
  })

  test('tail filters by channel, subtopic and name, and begins where its options say', async () => {
    topic = await kafka.createTopic()
    environment = on(topic)
    const pack = (n: string, v: number): Buffer => Buffer.from(JSON.stringify([{ bn: 'room:', n, v }]))
    const uuid = '7acb5f9e-3c0e-4a57-9d0a-5f9f0a3c1b77'
    await append([
      outgoing({ channel: uuid, subtopic: '', payload: pack('h', 0) }),
      outgoing({ channel: 'a.b', subtopic: 'x.y', payload: pack('t', 1) }),
      outgoing({ channel: 'a.b', subtopic: 'x.y.z', payload: pack('h', 2) }),
      outgoing({ channel: 'c', subtopic: 'x.w', payload: pack('t', 3) }),
      outgoing({ channel: 'c', subtopic: '', payload: pack('t', 4) }),
    ])
    const values = async (...words: string[]): Promise<number[]> => {
      const printed = await said(['tail', '--from-beginning', '--json', ...words])
      const payloads = printed
        .trim()
        .split('\n')
        .map(line => JSON.parse(line) as { payload?: string; record?: { v: number } })
      return payloads
        .map(({ payload, record }) => record?.v ?? (JSON.parse(payload!) as { v: number }[])[0]!.v)
        .toSorted((left, right) => left - right)
    }
    expect(await values('--count', '5')).toEqual([0, 1, 2, 3, 4])
    expect(await values('--count', '1', '--channel', uuid.toUpperCase())).toEqual([0])
    expect(await values('--count', '2', '--channel', 'a.b')).toEqual([1, 2])
    expect(await values('--count', '2', '--subtopic', 'x.*')).toEqual([1, 3])
    expect(await values('--count', '3', '--subtopic', 'x/>')).toEqual([1, 2, 3])
    expect(await values('--count', '3', '--name', 'room:t')).toEqual([1, 3, 4])
    const last = async (n: number): Promise<string> => said(['tail', '--last', String(n), '--count', '1', '--name', 'room:t'])
    expect(await last(1)).toMatch(/ {2}c {2}- {2}t1 {2}\{"n":"room:t","v":4,"t":1700000000\}\n$/)
    expect(await last(2)).toMatch(/ {2}c {2}x\.w {2}t1 {2}\{"n":"room:t","v":3,/)
    expect(await last(99)).toMatch(/ {2}a\.b {2}x\.y {2}t1 {2}\{"n":"room:t","v":1,/)
  })

  inDepth(() => {
    test('tail reads what Java compresses, by each of the codecs', async () => {
      for (const codec of ['none', 'gzip', 'snappy', 'lz4', 'zstd']) {
        const file = join(temporaryFolder(), codec)
        writeFileSync(file, `${codec} `.repeat(50))
        const properties = [`bootstrap.servers=${kafka.brokers[0]}`, `compression.type=${codec}`]
        const load = ['--topic', topic, '--num-records', '1', '--payload-file', file, '--throughput', '-1']
        await kafka.tool('ProducerPerformance', [...load, '--producer-props', ...properties])
      }
      const shown = (await said(['tail', '--from-beginning', '--count', '5'])).trim().split('\n')
      expect(shown.map(line => / {2}- {2}- {2}- {2}(\w+) /.exec(line)?.[1] ?? '').sort()).toEqual(['gzip', 'lz4', 'none', 'snappy', 'zstd'])
    })
  })

  inDepth(() => {
    test('both come in by TLS and SASL, and a wrong password is a sentence', async () => {
      const ca = join(temporaryFolder(), 'ca.pem')
      writeFileSync(ca, kafka.secured.certificate)
      const { saslTls, username, password } = kafka.secured
      const secured = {
        ...environment,
        SVC_LOG_BROKERS: saslTls.join(','),
        SVC_LOG_TLS: 'true',
        SVC_LOG_CA_FILE: ca,
        SVC_LOG_SASL_MECHANISM: 'scram-sha-512',
        SVC_LOG_SASL_USERNAME: username,
        SVC_LOG_SASL_PASSWORD: password,
      }
      const sent = await sluice(['send', '--channel', 'c1'], '[1]', secured)
      expect([sent.code, sent.errors]).toEqual([0, ''])
      const shown = await sluice(['tail', '--from-beginning', '--count', '1'], '', secured)
      expect([shown.code, shown.errors]).toEqual([0, ''])
      expect(shown.output.toString()).toMatch(/ {2}\[1\]\n$/)
      const refused = await sluice(['send', '--channel', 'c1'], '[1]', { ...secured, SVC_LOG_SASL_PASSWORD: 'not the one' })
      expect(refused.code).toBe(2)
      expect(refused.errors).toMatch(/correct .*log\.sasl_username/)
      expect(refused.errors).not.toContain('not the one')
    })
  })
})

inDepth(() => {
  describeWithOwnKafka('a broker that restarts', kafka => {
    test('what is sent meanwhile is there once, and tail goes on where it was', async () => {
      const topic = await kafka.createTopic()
      const environment = { SVC_LOG_BROKERS: kafka.brokers.join(','), SVC_LOG_TOPIC: topic }
      const lines = Array.from({ length: 400 }, (_, at) => `[${at}]`)
      const shown = ended(start(['tail', '--from-beginning', '--count', '400', '--json'], environment))
      const sent = sluice(['send', '--lines', '--channel', 'c1', '--rate', '100'], lines.join('\n'), environment)
      await expect.poll(async () => (await readTopic(kafka.brokers, topic)).length).toBeGreaterThan(50)
      await kafka.restart()
      const { code, output, errors } = await sent
      expect({ code, errors, output: output.toString() }).toEqual({ code: 0, errors: '', output: `sent 400 messages to ${topic}\n` })
      expect((await readByPipeline(kafka, topic)).map(({ payload }) => payload)).toEqual(lines)
      const printed = await shown
      expect(printed).toMatchObject({ code: 0, errors: expect.not.stringMatching(/\n\s+at /) })
      expect(
        printed.output
          .toString()
          .trim()
          .split('\n')
          .map(line => JSON.parse(line).payload),
      ).toEqual(lines)
    })

    test('a broker that stays away ends send with what is certain and what is not', async () => {
      const topic = await kafka.createTopic()
      const environment = { SVC_LOG_BROKERS: kafka.brokers.join(','), SVC_LOG_TOPIC: topic }
      const sent = sluice(['send', '--lines', '--channel', 'c1', '--rate', '100'], '[1]\n'.repeat(100_000), environment)
      await expect.poll(async () => (await readTopic(kafka.brokers, topic)).length).toBeGreaterThan(50)
      await kafka.kill()
      const { code, output, errors } = await sent
      expect(code).toBe(1)
      expect(errors).toMatch(/^no acknowledgement of the brokers: the next \d+ may or may not be in the topic \(.*\): check the brokers\n$/)
      const acknowledged = Number(/^stopped: sent (\d+) messages/.exec(output.toString())![1])
      await kafka.restart()
      const there = (await readTopic(kafka.brokers, topic)).length
      expect(there).toBeGreaterThanOrEqual(acknowledged)
      expect(there).toBeLessThanOrEqual(acknowledged + Number(/next (\d+) may/.exec(errors)![1]))
    })
  })
})
