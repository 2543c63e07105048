// A broker that dies, freezes, or is not up yet: nothing acknowledged is lost or misplaced, and refusals come in time.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { describeWithOwnKafka } from '../../servers/kafka.ts'
import { outgoing } from '../message.ts'
import { expectKept, publish } from './publishers.ts'
import { impatient, logSettings, readTopic, silent } from './stored-messages.ts'

describeWithOwnKafka('an outage of the broker', kafka => {
  test('killed during an append, it loses nothing that was acknowledged, and messages in flight arrive once it is back', async () => {
    const topic = await kafka.createTopic({ partitions: 3 })
    const log = await openKafkaLog(logSettings(kafka.brokers, topic, { appendTimeoutMs: 120_000 }), silent)
    const load = publish(log, 32)
    for (let kill = 0; kill < 3; kill++) {
      const before = load.acknowledged.length
      await expect.poll(() => load.acknowledged.length).toBeGreaterThan(before + 500)
      await kafka.kill()
      await kafka.restart()
    }
    const before = load.acknowledged.length
    await expect.poll(() => load.acknowledged.length).toBeGreaterThan(before + 500)
    await load.stop()
    await log.close()
    expect(load.refused.size).toBe(0)
    expectKept(await readTopic(kafka.brokers, topic), load.acknowledged, load.refused)
  })

  test('connections cut during requests neither lose nor duplicate a message', async () => {
    const topic = await kafka.createTopic({ partitions: 3 })
    const log = await openKafkaLog(logSettings(kafka.proxied, topic), silent)
    const load = publish(log, 32)
    for (let cut = 0; cut < 20; cut++) await kafka.proxy.cutAfter(500 + Math.floor(Math.random() * 40_000))
    await load.stop()
    await log.close()
    expect(load.refused.size).toBe(0)
    expectKept(await readTopic(kafka.brokers, topic), load.acknowledged, load.refused)
  })

  test('answers lost after the broker stored the messages do not duplicate them', async () => {
    const topic = await kafka.createTopic({ partitions: 3 })
    const log = await openKafkaLog(logSettings(kafka.proxied, topic), silent)
    const load = publish(log, 32)
    // A cut hits requests and answers equally often.
    kafka.proxy.latency(10)
    for (let cut = 0; cut < 20; cut++) {
      const before = load.acknowledged.length
      await expect.poll(() => load.acknowledged.length, { interval: 1 }).toBeGreaterThan(before)
      await wait(Math.random() * 40)
      kafka.proxy.cut()
    }
    await kafka.proxy.heal()
    await load.stop()
    await log.close()
    expect(load.refused.size).toBe(0)
    expectKept(await readTopic(kafka.brokers, topic), load.acknowledged, load.refused)
  })

  test('while it is frozen, appends are refused in time; when it is back it duplicates nothing, and later messages keep their order', async () => {
    const topic = await kafka.createTopic({ partitions: 3 })
    const log = await openKafkaLog(logSettings(kafka.brokers, topic, impatient), silent)
    const load = publish(log, 32)
    await expect.poll(() => load.acknowledged.length).toBeGreaterThan(500)
    kafka.pause()
    const startedMs = performance.now()
    // Requests are repeated until the append expires: nothing else ends it. Its limit is a sixth, for a busy machine.
    await expect(log.append([outgoing()])).rejects.toBeInstanceOf(LogUnavailableError)
    expect(performance.now() - startedMs).toBeLessThan(6 * impatient.appendTimeoutMs)
    await expect(log.check()).rejects.toBeInstanceOf(LogUnavailableError)
    // Those may have been appended a moment later.
    await expect.poll(() => load.refused.size).toBeGreaterThan(0)
    kafka.resume()
    const before = load.acknowledged.length
    await expect.poll(() => load.acknowledged.length).toBeGreaterThan(before + 500)
    await load.stop()
    // It fails for some seconds if one of the last appends has expired.
    await expect.poll(() => log.check().catch((error: unknown) => error)).toBeUndefined()
    await log.close()
    const stored = await readTopic(kafka.brokers, topic)
    expectKept(
      stored.filter(({ value }) => value.toString() !== '[1]'),
      load.acknowledged,
      load.refused,
    )
  })

  test('if it is away at the start, opening can be retried; a log that lost its broker recovers by itself', async () => {
    const topic = await kafka.createTopic()
    const settings = logSettings(kafka.brokers, topic, impatient)
    await kafka.kill()
    await expect(openKafkaLog(settings, silent)).rejects.toThrow(/cannot be reached .*ECONNREFUSED/)
    await kafka.restart()
    const log = await openKafkaLog(settings, silent)
    await kafka.kill()
    await expect(log.append([outgoing()])).rejects.toThrow(/does not accept messages .*ECONNREFUSED/)
    await expect(log.check()).rejects.toBeInstanceOf(LogUnavailableError)
    await kafka.restart()
    await expect.poll(() => log.append([outgoing()]).catch(() => [])).toHaveLength(1)
    await log.check()
    await log.close()
  })

  test.each([
    // A process that waited for the time limit of its append would outlast the test.
    { broker: 'there', appendTimeoutMs: 3_600_000 },
    { broker: 'away', appendTimeoutMs: 5_000 },
  ])('a process ends by itself when its log is closed, with the broker $broker', async ({ broker, appendTimeoutMs }) => {
    const topic = await kafka.createTopic()
    const child = fork(new URL('./log-process.ts', import.meta.url), [kafka.brokers.join(), topic, String(appendTimeoutMs)])
    const exited = once(child, 'exit')
    await once(child, 'message')
    if (broker === 'away') await kafka.kill()
    child.send('close')
    expect(await exited).toEqual([0, null])
    if (broker === 'away') await kafka.restart()
  })
})
