// Two brokers, one of which dies: the other leads its partitions, and nothing is lost, duplicated or out of order.

import { Admin } from '@platformatic/kafka'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { describeWithOwnKafka } from '../../servers/kafka.ts'
import { outgoing } from '../message.ts'
import { expectKept, publish } from './publishers.ts'
import { electPreferredLeaders, joinCluster, type SecondBroker } from './second-broker.ts'
import { impatient, logSettings, readTopic, silent } from './stored-messages.ts'

describeWithOwnKafka('two brokers', kafka => {
  let second: SecondBroker
  let admin: Admin
  beforeAll(async () => {
    second = await joinCluster(kafka)
    admin = new Admin({ clientId: 'test', bootstrapBrokers: [...kafka.brokers], retries: 20, retryDelay: 100 })
  })
  afterAll(async () => {
    await admin.close()
    await second.stop()
  })

  async function partitionsOf(topic: string): Promise<{ leader: number; isr: number[] }[]> {
    return (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic)!.partitions
  }

  /** With both brokers as replicas, each leading three partitions. */
  async function makeTopic(name: string, configs: { name: string; value: string }[] = []): Promise<void> {
    const assignments = Array.from({ length: 6 }, (_, partition) => ({ partition, brokers: partition % 2 === 0 ? [1, 2] : [2, 1] }))
    await admin.createTopics({ topics: [name], assignments, configs })
    await expect.poll(async () => (await partitionsOf(name)).filter(({ leader, isr }) => leader === 2 && isr.length === 2)).toHaveLength(3)
  }

  test('if a leader is killed during an append the other broker takes over, and nothing acknowledged is lost, duplicated or out of order', async () => {
    await makeTopic('failover')
    const log = await openKafkaLog(logSettings(kafka.brokers, 'failover', { appendTimeoutMs: 120_000 }), silent)
    const load = publish(log, 32)
    for (let kill = 0; kill < 3; kill++) {
      const before = load.acknowledged.length
      await expect.poll(() => load.acknowledged.length).toBeGreaterThan(before + 500)
      await second.kill()
      await expect.poll(async () => (await partitionsOf('failover')).every(({ leader }) => leader === 1)).toBe(true)
      const between = load.acknowledged.length
      await expect.poll(() => load.acknowledged.length).toBeGreaterThan(between + 500)
      await second.restart()
      await expect.poll(async () => (await partitionsOf('failover')).every(({ isr }) => isr.length === 2)).toBe(true)
      await electPreferredLeaders(kafka)
    }
    const before = load.acknowledged.length
    await expect.poll(() => load.acknowledged.length).toBeGreaterThan(before + 500)
    await load.stop()
    await log.close()
    expect(load.refused.size).toBe(0)
    await second.kill()
    await expect.poll(async () => (await partitionsOf('failover')).every(({ leader }) => leader === 1)).toBe(true)
    expectKept(await readTopic(kafka.brokers, 'failover'), load.acknowledged, load.refused)
    await second.restart()
  })

  test('with too few in-sync replicas an append is refused in time and the check says why; the log recovers by itself', async () => {
    await makeTopic('replicas', [{ name: 'min.insync.replicas', value: '2' }])
    const log = await openKafkaLog(logSettings(kafka.brokers, 'replicas', impatient), silent)
    await log.append([outgoing()])
    await log.check()
    await second.kill()
    await expect.poll(async () => (await partitionsOf('replicas')).every(({ leader }) => leader === 1)).toBe(true)
    // It is repeated until the append expires: nothing else ends it.
    const refused: unknown = await log.append([outgoing()]).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(LogUnavailableError)
    expect((refused as Error).message).toMatch(/does not accept messages .*in-sync replicas/)
    await expect(log.check()).rejects.toThrow(/in-sync replicas/)
    await second.restart()
    await expect.poll(() => log.append([outgoing()]).catch(() => [])).toHaveLength(1)
    await log.check()
    await log.close()
  })
})
