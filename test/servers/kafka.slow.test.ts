// Kafka brokers that are killed, halted and cut off, and how they come to be and end.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import { expect, onTestFinished, test, vi } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'
import { describeWithOwnKafka, startKafka } from './kafka.ts'

/** Closed with the test, also when it fails. */
function openProducer(brokers: readonly string[]): Producer<string, string, string, string> {
  const options = { retries: 0, connectTimeout: 1000, requestTimeout: 2000, timeout: 2000 }
  const producer = new Producer({ clientId: 'test', bootstrapBrokers: [...brokers], serializers: stringSerializers, ...options })
  onTestFinished(() => producer.close().catch(() => undefined))
  return producer
}

async function readAll(topic: string, brokers: readonly string[], count: number): Promise<string[]> {
  const consumer = new Consumer({ clientId: 'test', groupId: topic, bootstrapBrokers: [...brokers], deserializers: stringDeserializers })
  const values: string[] = []
  for await (const { value } of await consumer.consume({ topics: [topic], mode: 'earliest' })) {
    values.push(value ?? '')
    if (values.length === count) break
  }
  await consumer.close(true)
  return values
}

/** The first lines that a process prints which imports `startKafka` and runs the code. */
async function linesOf(
  code: string,
  count: number,
  env: NodeJS.ProcessEnv = process.env,
): Promise<{ child: ChildProcess; lines: string[] }> {
  const script = `import { startKafka } from ${JSON.stringify(new URL('./kafka.ts', import.meta.url).href)}\n${code}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const lines: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line)
    if (lines.length === count) break
  }
  return { child, lines }
}

describeWithOwnKafka('a broker of its own', kafka => {
  test('keeps what it acknowledged when it is killed, and comes back on the same ports', async () => {
    const topic = await kafka.createTopic()
    const sent = Array.from({ length: 1000 }, (_, index) => String(index))
    const producer = openProducer(kafka.brokers)
    await producer.send({ messages: sent.map(value => ({ topic, key: 'k', value })), acks: -1 })
    const { pid, brokers } = kafka
    await kafka.kill()
    expect(kafka.alive).toBe(false)
    await expect(openProducer(brokers).send({ messages: [{ topic, key: 'k', value: 'none' }] })).rejects.toThrow()
    await kafka.restart()
    expect([kafka.alive, kafka.brokers]).toEqual([true, brokers])
    expect(kafka.pid).not.toBe(pid)
    expect(await readAll(topic, kafka.brokers, sent.length)).toEqual(sent)
  })

  test('keeps what it acknowledged over an orderly restart', async () => {
    const topic = await kafka.createTopic()
    await openProducer(kafka.brokers).send({ messages: [{ topic, key: 'k', value: 'v' }], acks: -1 })
    await kafka.restart()
    expect(await readAll(topic, kafka.brokers, 1)).toEqual(['v'])
  })

  test('answers nothing while it is halted, and goes on', async () => {
    const topic = await kafka.createTopic()
    kafka.pause()
    await expect(openProducer(kafka.brokers).send({ messages: [{ topic, key: 'k', value: 'lost' }] })).rejects.toThrow()
    kafka.resume()
    await vi.waitFor(() => openProducer(kafka.brokers).send({ messages: [{ topic, key: 'k', value: 'v' }] }), { timeout: 20_000 })
    expect(await readAll(topic, kafka.brokers, 1)).toEqual(['v'])
  })

  test('sends who comes by the proxy through the proxy, and leaves the others alone', async () => {
    const topic = await kafka.createTopic()
    const producer = openProducer(kafka.proxied)
    await producer.send({ messages: [{ topic, key: 'k', value: '1' }] })
    expect(kafka.proxy.connections).toBeGreaterThan(0)
    kafka.proxy.halfOpen()
    await expect(producer.send({ messages: [{ topic, key: 'k', value: 'lost' }] })).rejects.toThrow()
    await openProducer(kafka.brokers).send({ messages: [{ topic, key: 'k', value: '2' }] })
    await kafka.proxy.heal()
    kafka.proxy.cut()
    await openProducer(kafka.proxied).send({ messages: [{ topic, key: 'k', value: '3' }] })
    expect(await readAll(topic, kafka.brokers, 3)).toEqual(['1', '2', '3'])
  })

  test('takes settings of its own', async () => {
    const other = await startKafka({ settings: { 'auto.create.topics.enable': 'true' } })
    onTestFinished(() => other.stop())
    expect(other.port).not.toBe(kafka.port)
    const producer = new Producer({
      clientId: 'test',
      bootstrapBrokers: [...other.brokers],
      serializers: stringSerializers,
      autocreateTopics: true,
    })
    onTestFinished(() => producer.close())
    await producer.send({ messages: [{ topic: 'made-by-itself', key: 'k', value: 'v' }] })
  })

  test.each(['running', 'halted'])('ends while %s, and leaves no files, when the process that started it is killed', async state => {
    const halt = state === 'halted' ? 'kafka.pause();' : ''
    const code = `const kafka = await startKafka(); ${halt} console.log(kafka.port); console.log(kafka.folder); setInterval(() => {}, 1000)`
    const { child, lines } = await linesOf(code, 2)
    const [port = '', folder = ''] = lines
    expect(existsSync(folder)).toBe(true)
    child.kill('SIGKILL')
    await vi.waitFor(() => expect(existsSync(folder)).toBe(false), { timeout: 20_000 })
    const [refused] = (await once(connect(Number(port), '127.0.0.1'), 'error')) as [NodeJS.ErrnoException]
    expect(refused.code).toBe('ECONNREFUSED')
  })

  test('is installed by two processes that both find nothing', async () => {
    const env = { ...process.env, SLUICE_CACHE: temporaryFolder() }
    const code = 'const kafka = await startKafka(); console.log(await kafka.createTopic()); await kafka.stop()'
    const both = await Promise.all([linesOf(code, 1, env), linesOf(code, 1, env)])
    expect(both.map(({ lines }) => lines)).toEqual([[expect.stringMatching(/^test-/)], [expect.stringMatching(/^test-/)]])
  })
})
