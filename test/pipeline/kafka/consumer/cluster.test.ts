// The connections of a consumer: which broker gets a request, when one is opened, and when a failed one is dropped.

import { expect, test } from 'vitest'
import { BrokerError, type KafkaBroker } from '../../../../pipeline/kafka/consumer/broker.ts'
import { openCluster } from '../../../../pipeline/kafka/consumer/cluster.ts'
import { clusterOf, type FakeBroker } from '../fake-brokers.ts'

const hostOf = async (broker: KafkaBroker): Promise<string> => (broker as FakeBroker).address.host

test('each role has its own broker, which is opened once', async () => {
  const { cluster, hosts } = clusterOf(['seed:9092'])
  await cluster.metadata(['t'])
  expect(await Promise.all([cluster.atLeader(1, hostOf), cluster.atLeader(1, hostOf), cluster.atLeader(2, hostOf)])).toEqual([
    'node1',
    'node1',
    'node2',
  ])
  expect(await cluster.atCoordinator('g', hostOf)).toBe('node2')
  expect(hosts()).toEqual(['seed', 'node1', 'node2', 'node2'])
})

test('commits have a separate broker from the coordinator, and both are forgotten together', async () => {
  const { cluster, opened } = clusterOf(['seed:9092'])
  await cluster.metadata(['t'])
  await cluster.atCoordinator('g', hostOf)
  const failing = cluster.atCommits('g', async () => {
    throw new Error('late')
  })
  await expect(failing).rejects.toThrow('late')
  expect(opened.map(({ ended }) => ended)).toEqual([0, 0, 1])
  await cluster.atCommits('g', hostOf)
  cluster.forgetCoordinator()
  await expect.poll(() => opened.map(({ ended }) => ended)).toEqual([0, 1, 1, 1])
})

test('a broker whose connection is closed is replaced before the next request', async () => {
  const { cluster, opened } = clusterOf(['seed:9092'])
  await cluster.metadata(['t'])
  await cluster.atLeader(1, hostOf)
  opened[1]!.isThere = false
  const asked: KafkaBroker[] = []
  await cluster.atLeader(1, async broker => void asked.push(broker))
  expect(asked).toEqual([opened[2]])
  expect(opened[1]!.ended).toBe(1)
})

test('a broker is dropped when its connection fails, but not for an error in its answer', async () => {
  const { cluster, opened } = clusterOf(['seed:9092'])
  await cluster.metadata(['t'])
  const failing = (error: Error) =>
    cluster.atLeader(1, async () => {
      throw error
    })
  await expect(failing(new BrokerError(6, 'not the leader'))).rejects.toThrow('not the leader')
  expect([opened.length, opened[1]!.ended]).toEqual([2, 0])
  await expect(failing(new Error('cut'))).rejects.toThrow('cut')
  expect(opened[1]!.ended).toBe(1)
  await cluster.atLeader(1, hostOf)
  expect(opened).toHaveLength(3)
})

test('the next address is tried if one is away, also with IPv6, and the last failure is thrown if all are', async () => {
  const away: string[] = []
  const cluster = openCluster(['a:1', '[::1]:2'], async ({ host, port }) => {
    away.push(`${host} ${port}`)
    throw new Error(`${host} is away`)
  })
  await expect(cluster.metadata(['t'])).rejects.toThrow('::1 is away')
  expect(away).toEqual(['a 1', '::1 2'])
})

test('a closed cluster ends its brokers, and opens none', async () => {
  const { cluster, opened } = clusterOf(['seed:9092'])
  await cluster.metadata(['t'])
  cluster.close()
  await expect.poll(() => opened[0]!.ended).toBe(1)
  await expect(cluster.metadata(['t'])).rejects.toThrow('the source is closed')
  expect(opened.every(({ ended }) => ended === 1)).toBe(true)
})
