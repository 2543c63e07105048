// The connections to a cluster: to any broker, to the leaders of partitions, and to a group's coordinator, with a separate one for commits.
//
// Each role has its own connections. A JoinGroup is answered only when the whole group has joined, and blocks later requests on its connection.
// A commit behind it would time out and close the connection, which would also fail the join; that would repeat until the group removes the member
// that it waits for. A failed connection is never used again: its broker is dropped, and opened again when needed.

import { SystemicError } from '../../systemic-error.ts'
import { type Address, BrokerError, type ConnectBroker, type KafkaBroker, type Metadata } from './broker.ts'

/** Methods throw the errors of brokers. */
export interface Cluster {
  /** Asks any broker that answers. Also updates the addresses for `atLeader`. */
  metadata(topics: readonly string[]): Promise<Metadata>
  atLeader<Answer>(nodeId: number, call: (broker: KafkaBroker) => Promise<Answer>): Promise<Answer>
  atCoordinator<Answer>(group: string, call: (broker: KafkaBroker) => Promise<Answer>): Promise<Answer>
  /** Calls the group's coordinator on a separate connection, for commits, which must not wait for a JoinGroup. */
  atCommits<Answer>(group: string, call: (broker: KafkaBroker) => Promise<Answer>): Promise<Answer>
  /** The next call looks it up again. */
  forgetCoordinator(): void
  /** Fails running requests, without waiting for answers. */
  close(): void
}

/** @param bootstrap initial brokers, each `host:port` */
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

  /** The connected broker of this role; calls `open` if there is none with intact connections. */
  async function inRole(role: string, open: () => Promise<KafkaBroker>): Promise<KafkaBroker> {
    const present = brokers.get(role)
    if (present !== undefined) {
      const broker = await present
      if (broker.isWhole()) return broker
      // Another one may have replaced it in the meantime.
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

  /** Tries the brokers known from the cluster, then those of the options, starting with another one each time. */
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
    if (address === undefined) throw new Error(`the broker ${nodeId} is not in the metadata of the cluster`)
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
    async metadata(topics) {
      const metadata = await at('any', openAny, broker => broker.metadata(topics))
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
