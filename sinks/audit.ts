// The contract of an audit: what a store says that it holds, for comparing it with the log.

/** A log as the store knows it. */
export interface AuditedLog {
  readonly number: number
  readonly name: string
  readonly id: string
  /** Whom the store's rows of it belong to. */
  readonly writer: string
  /** By partition; empty for a store that keeps no positions. */
  readonly partitions: ReadonlyMap<number, AuditedPartition>
}

/** Where a partition goes on, and what became of its messages by the store's own books (see `MessageCounts`). */
export interface AuditedPartition {
  readonly nextOffset: number
  readonly received: number
  readonly stored: number
  readonly empty: number
  readonly filtered: number
  readonly skipped: number
  readonly duplicate: number
  readonly deadLettered: number
  readonly lost: number
}

/** A message that the store has rows of. */
export interface AuditedMessage {
  readonly offset: number
  /** All rows that have its position. */
  readonly rows: number
  /** Of these, the rows that are another row once more: the same position and index. */
  readonly doubled: number
  /** It was dead-lettered, replayed, and stored then. */
  readonly replayed: boolean
}

/** Some offsets of a partition: `[from, to)`. */
export interface AuditedRange {
  readonly partition: number
  readonly from: number
  readonly to: number
}

/** What is known of a message whose rows are looked for, so that the store need not look at every row it has. */
export interface Whereabouts {
  readonly channel: string
  /** `messages` for SenML. */
  readonly format: string
  /** The earliest and the latest time of its rows, microseconds since 1970. */
  readonly earliestUs: number
  readonly latestUs: number
}

/**
 * An audit reads and never writes, needs no right but to read, and may run beside any number of writers. It is opened by its store's folder
 * (`openAudit`) and closed by whoever opened what it stands on.
 *
 * Every method throws the errors of the store's driver.
 */
export interface StoreAudit {
  /** Every log that the store knows; of a name that it knows twice the one that is written from now comes first. */
  logs(): Promise<readonly AuditedLog[]>

  /**
   * The messages of one partition with an offset in `[from, to)` that have rows, in the order of their offsets. Rows written after it
   * was asked may be missing or there. Bounded memory, here and at the store; may take as long as reading all rows does.
   *
   * @param after what is asked of the same log next, in this order: a store that has to look at all rows for it may look for those as well. They
   * count as asked then
   */
  messages(log: number, partition: number, from: number, to: number, after?: readonly AuditedRange[]): AsyncIterable<AuditedMessage>

  /** The rows of one message: quick, by what is known of it. */
  rowsOf(log: number, partition: number, offset: number, where: Whereabouts): Promise<number>
}
