// The interface to one broker for the consumer, and the error for error codes in its answers. Tests implement it with fake brokers.

import type { Positions } from '../../../sinks/sink.ts'
import type { LogPartition } from '../../../transformers/log-partition.ts'
import type { AbortedTransaction } from '../records/aborted-transactions.ts'

export interface Address {
  readonly host: string
  readonly port: number
}

export interface BrokerAddress extends Address {
  readonly nodeId: number
}

/** Leader id of a partition without a leader: one is being elected, or all candidates are away. */
export const noLeader = -1

export interface TopicMetadata {
  /** Kafka's error code; 0 for none. */
  readonly error: number
  readonly id: string
  /** By number. The leader may be `noLeader`. */
  readonly partitions: readonly { readonly partition: number; readonly leader: number }[]
}

export interface Metadata {
  readonly brokers: readonly BrokerAddress[]
  /** In the order of the request. */
  readonly topics: readonly TopicMetadata[]
}

export interface FetchRequest {
  /** By log. */
  readonly topicIds: readonly string[]
  /** In the order in which the broker should fill its answer. */
  readonly partitions: readonly { readonly at: LogPartition; readonly offset: number }[]
  /** How long the broker waits for a first message. */
  readonly waitMs: number
  /** Size limit of the answer, and of each partition in it; the first batch is always complete, even if it is larger. */
  readonly bytesMax: number
  readonly partitionBytesMax: number
}

export interface FetchedPartition {
  readonly at: LogPartition
  /** Kafka's error code; 0 for none. */
  readonly error: number
  readonly aborted: readonly AbortedTransaction[]
  /** A view of the answer. */
  readonly records: Buffer
}

export interface FetchAnswer {
  readonly error: number
  readonly partitions: readonly FetchedPartition[]
}

export interface GroupMember {
  readonly memberId: string
  /** Its subscription (assignment.ts). */
  readonly metadata: Buffer
}

/** A member in the description of its group. */
export interface DescribedMember {
  readonly clientId: string
  readonly host: string
  /** Its partitions (assignment.ts); empty if it has none. */
  readonly assignment: Buffer
}

/** A member in one generation of its group. */
export interface InGeneration {
  readonly group: string
  readonly memberId: string
  readonly generation: number
  /** Its name in the group, for static membership (KIP-345). */
  readonly instance?: string | undefined
}

export interface JoinRequest {
  readonly group: string
  readonly instance?: string | undefined
  /** Empty before the group has assigned one. */
  readonly memberId: string
  readonly sessionMs: number
  readonly rebalanceMs: number
  readonly protocol: string
  readonly metadata: Buffer
  /** Called immediately with the id that the group assigns to a new member; the join itself is answered when the whole group has joined. */
  readonly onMemberId?: (memberId: string) => void
}

export interface Joined {
  readonly generation: number
  readonly memberId: string
  /** The member that assigns the partitions. */
  readonly leaderId: string
  /** The group is stable and keeps its assignments: a leader that returned under its name assigns nothing. */
  readonly skipsAssignment?: boolean
  /** Only for the leader. */
  readonly members: readonly GroupMember[]
}

export interface SyncRequest extends InGeneration {
  readonly protocol: string
  /** How long the group waits for its leader. */
  readonly rebalanceMs: number
  /** By member; only from the leader. */
  readonly assignments: ReadonlyMap<string, Buffer>
}

/** Special timestamps for the ends of a partition. */
export const OffsetAt = { start: -2, end: -1 } as const

/**
 * A connected broker. Topics are given by log, as an array of their names. Other requests do not wait for a running fetch; every request has a time limit.
 * Methods throw BrokerError for an error code in the answer, SystemicError for an unsupported broker, and any other error for a connection
 * that is no longer usable: closed, silent, or with malformed answers.
 */
export interface KafkaBroker {
  /** False if one of its connections is closed. */
  isWhole(): boolean
  metadata(topics: readonly string[]): Promise<Metadata>
  fetch(request: FetchRequest): Promise<FetchAnswer>
  /** Offsets of partitions that it leads, including uncommitted transactions. */
  offsets(
    topics: readonly string[],
    partitions: readonly LogPartition[],
    when: (typeof OffsetAt)[keyof typeof OffsetAt],
  ): Promise<Positions>
  coordinatorOf(group: string): Promise<Address>
  /** Resolves when the whole group has joined. */
  join(request: JoinRequest): Promise<Joined>
  /** The member's assignment; empty if it got none. */
  sync(request: SyncRequest): Promise<Buffer>
  heartbeat(member: InGeneration): Promise<void>
  leave(member: Omit<InGeneration, 'generation'>): Promise<void>
  /** The state is `Stable` once all members have their assignments. */
  describe(group: string): Promise<{ readonly state: string; readonly members: readonly DescribedMember[] }>
  /** The committed offsets of those partitions that have one. */
  committed(group: string, topics: readonly string[], partitions: readonly LogPartition[]): Promise<Positions>
  commit(member: InGeneration, topics: readonly string[], positions: Positions): Promise<void>
  /** Closes its connections and fails running requests, without waiting for answers. */
  end(): void
}

/** Opens a broker. */
export type ConnectBroker = (address: Address) => Promise<KafkaBroker>

/** An error code in a broker's answer. */
export class BrokerError extends Error {
  override readonly name = 'BrokerError'
  /** Kafka's number of it. */
  readonly apiCode: number

  constructor(apiCode: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.apiCode = apiCode
  }
}
