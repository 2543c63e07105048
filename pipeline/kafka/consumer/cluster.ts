// The connections to a cluster: to any broker, to those that lead partitions, and to the coordinator of a group, also for its commits.
//
// Each has connections of its own: a JoinGroup is answered when the whole group has joined, and what is behind it on its connection waits.
// A commit there would be given up in its time, and with the connection the join: so it would go until the group gives up who it waits for.
// A connection that failed is never used again, so its broker is dropped and made anew when it is needed.

import { SystemicError } from '../../systemic-error.ts'
import { type Address, BrokerError, type ConnectBroker, type KafkaBroker } from './broker.ts'
import type { Metadata } from './metadata-request.ts'

/** Calls throw what brokers throw. */
export interface Cluster {
  /** Asked of whichever broker answers. Tells `atLeader` where brokers are. */
  metadata(topic: string): Promise<Metadata>
  atLeader<Answer>(nodeId: number, call: (broker: KafkaBroker) => Promise<Answer>): Promise<Answer>
  atCoordinator<Answer>(group: string, call: (broker: KafkaBroker) => Promise<Answer>): Promise<Answer>
  /** Of the group's coordinator too, and not behind a JoinGroup: for what is committed. */
  atCommits<Answer>(group: string, call: (broker: KafkaBroker) => Promise<Answer>): Promise<Answer>
  /** It is asked for anew by the next call. */
  forgetCoordinator(): void
  /** Ends what is under way, without waiting for answers. */
  close(): void
}

/** @param bootstrap brokers to begin with, each `host:port` */
export function openCluster(bootstrap: readonly string[], connectBroker: ConnectBroker): Cluster {
  let known: Metadata['brokers'] = []
  let turn = 0
  let closed = false
  /** By role. */
  const brokers = new Map<string, Promise<KafkaBroker>>()

  async function connect(address: Address): Promise<KafkaBroker> {
    const broker = await connectBroker(address)
    if (closed) {
      broker.end()
      throw new Error('the source is closed')
    }
    return broker
  }

  /** The broker in this role, connected; opened by `open` where there is none that is whole. */
  async function inRole(role: string, open: () => Promise<KafkaBroker>): Promise<KafkaBroker> {
    const present = brokers.get(role)
    if (present !== undefined) {
      const broker = await present
      if (broker.isWhole()) return broker
      // Another may have come into its place meanwhile.
      if (brokers.get(role) === present) brokers.delete(role)
      broker.end()
    }
    const opening = brokers.get(role) ?? open()
    brokers.set(role, opening)
    opening.catch(() => brokers.get(role) === opening && brokers.delete(role))
    return opening
  }

  async function at<Answer>(
    role: string,
    open: () => Promise<KafkaBroker>,
    call: (broker: KafkaBroker) => Promise<Answer>,
  ): Promise<Answer> {
    const broker = await inRole(role, open)
    try {
      return await call(broker)
    } catch (error) {
      if (!(error instanceof BrokerError || error instanceof SystemicError)) drop(role, broker)
      throw error
    }
  }

  function drop(role: string, broker: KafkaBroker): void {
    const held = brokers.get(role)
    void held?.then(
      present => present === broker && brokers.get(role) === held && brokers.delete(role),
      () => undefined,
    )
    broker.end()
  }

  /** Those that were named by the cluster, then those by the options, each first in its turn. */
  async function openAny(): Promise<KafkaBroker> {
    const addresses: Address[] = [...known, ...bootstrap.map(addressOf)]
    let failure: unknown
    for (let tried = 0; tried < addresses.length; tried++) {
      try {
        return await connect(addresses[turn % addresses.length]!)
      } catch (error) {
        turn++
        failure = error
        if (error instanceof SystemicError || closed) break
      }
    }
    throw failure
  }

  async function openLeader(nodeId: number): Promise<KafkaBroker> {
    const address = known.find(broker => broker.nodeId === nodeId)
    if (address === undefined) throw new Error(`the broker ${nodeId} is not among those that the cluster names`)
    return connect(address)
  }

  async function openCoordinator(group: string): Promise<KafkaBroker> {
    return connect(await at('any', openAny, broker => broker.coordinatorOf(group)))
  }

  function forget(role: string): void {
    void brokers.get(role)?.then(
      broker => broker.end(),
      () => undefined,
    )
    brokers.delete(role)
  }

  return {
    async metadata(topic) {
      const metadata = await at('any', openAny, broker => broker.metadata(topic))
      if (metadata.brokers.length > 0) known = metadata.brokers
      return metadata
    },
    atLeader: (nodeId, call) => at(`leader ${nodeId}`, () => openLeader(nodeId), call),
    atCoordinator: (group, call) => at('coordinator', () => openCoordinator(group), call),
    atCommits: (group, call) => at('commits', () => openCoordinator(group), call),
    forgetCoordinator() {
      forget('coordinator')
      forget('commits')
    },
    close() {
      closed = true
      for (const role of brokers.keys()) forget(role)
    },
  }
}

function addressOf(broker: string): Address {
  const colon = broker.lastIndexOf(':')
  return { host: broker.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(broker.slice(colon + 1)) }
}
