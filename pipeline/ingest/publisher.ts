// The checks of a message and its append to the log: the same for every protocol that devices publish with, which share the quotas.

import { setImmediate } from 'node:timers/promises'
import type { Logger } from '../../config/logger.ts'
import { type Access, type Credential, limitedError } from '../../control-plane/client.ts'
import { HttpError } from '../../http/errors.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { hasObjectRoot } from '../../transformers/root.ts'
import { retainHeader } from '../envelope-headers.ts'
import type { Log, LogPosition, OutgoingMessage } from '../log.ts'
import { type Decoder, openDecoder } from '../writer/decode.ts'
import type { ArrivalListener } from './arrivals.ts'
import { type OwnerBounds, openOwnerBounds } from './bounds/owner-bounds.ts'
import { openQuotas, type Quotas } from './bounds/quotas.ts'
import type { MediaType } from './content-type.ts'
import { inLine, type linesType } from './lines.ts'
import type { IngestMetrics } from './metrics.ts'
import type { IngestOptions } from './options.ts'
import { checkDecodable, type Decoded, defaultDecoding } from './strict-handling.ts'

export interface PublisherParts {
  readonly log: Log
  /** The first part of a message id: the log's number in the store, or the topic's name if there is no store in this process. */
  readonly logLabel: () => string
  readonly metrics: IngestMetrics
  readonly options: Pick<IngestOptions, 'payloadBytesMax' | 'thingMessagesPerMinute' | 'channelMessagesPerMinute'>
  /** Decoder for strict handling; by default that of a writer with default options. */
  readonly decoder?: Decoder
  /** By default those of the options. */
  readonly quotas?: Quotas | undefined
  /** For things whose owner has bounds. */
  readonly bounds?: OwnerBounds | undefined
  readonly arrivals?: ArrivalListener
  /** For what bounds say. */
  readonly logger?: Pick<Logger, 'warn'>
}

/** Whose message it is. */
export interface Sender {
  /** The thing or the API key; null if it may not publish on the channel, which is answered after the message's format was checked. */
  readonly publisher: string | null
  /** The owner of the thing, if they registered themselves and have bounds. */
  readonly boundedOwner: string | undefined
}

export interface Publication extends Sender {
  readonly channel: string
  /** As `subtopicOf` returns it. */
  readonly subtopic: string
  /** For the envelope. */
  readonly protocol: 'http' | 'mqtt'
  readonly contentType: MediaType
  /** When it was received: microseconds since 1970. */
  readonly createdUs: number
  readonly payload: Uint8Array
  /** Decodes the payload first, and refuses what would become a dead letter. */
  readonly isStrict: boolean
  /** Published with the retain flag of MQTT, which the log keeps for subscribers. */
  readonly isRetained?: boolean
  /** Its line in a request with many, from 1. */
  readonly line?: number
}

export interface Published extends LogPosition {
  readonly id: string
  /** The id of the log. */
  readonly log: string
}

export interface Publisher {
  /** Counts what stores nothing against the quotas, as a message. @throws HttpError `forbidden`, `too_many_requests` */
  count(publication: Pick<Publication, 'channel' | 'publisher'>): Promise<undefined>
  /**
   * Checks what is known before the payload; counts nothing, because a rejected message must not count.
   *
   * @throws HttpError `malformed_request` for a subtopic without a format, `too_many_requests` for a quota that is used up
   */
  check(head: Head): void
  /**
   * Resolves with its id and position when the message is durable in the log.
   *
   * @throws HttpError `malformed_request`, `undecodable`, `forbidden`, `too_many_requests`, `too_large`: nothing was stored
   * @throws LogUnavailableError, MessageRefusedError, SystemicError as `Log.append`
   */
  publish(publication: Publication): Promise<Published>
  /**
   * Publishes many messages of one sender to one channel, all or none. Resolves like `publish`, in their order.
   *
   * @param publications at least one; taken as they are checked, with pauses for other work
   * @throws like `publish`, for the first message that is refused; what the iterable throws
   */
  publishAll(sender: Sender & { readonly channel: string }, publications: Iterable<Publication>): Promise<Published[]>
}

/** What is known of a publication before its payload. The content type of many messages is not that of any. */
export type Head = Sender & Pick<Publication, 'channel' | 'subtopic'> & { readonly contentType: MediaType | typeof linesType }

/** Checked and, if that was needed, decoded. */
interface Checked {
  readonly message: OutgoingMessage
  readonly decoded: Decoded | undefined
}

const whole = { isWhole: true }
/** Bytes that are checked in one event-loop turn, of many messages. */
const turnBytes = 64 * 1024

export function openPublisher({
  log,
  logLabel,
  metrics,
  options,
  decoder = openDecoder(defaultDecoding(options.payloadBytesMax)),
  quotas = openQuotas(options),
  logger,
  bounds = openOwnerBounds(logger),
  arrivals,
}: PublisherParts): Publisher {
  /** @throws HttpError */
  function checked(publication: Publication): Checked {
    const { channel, subtopic, publisher, boundedOwner, protocol, contentType, createdUs, payload, isStrict, isRetained } = publication
    if (payload.length === 0) throw new HttpError('malformed_request', 'the body is empty: send a SenML pack or a JSON document')
    // A writer reads an object as JSON, also if it is labelled as SenML.
    if (contentType === 'application/json' || (contentType === 'application/senml+json' && hasObjectRoot(payload))) checkFormat(subtopic)
    const message = { channel, subtopic, publisher: publisher ?? '', protocol, contentType, createdUs, createdRestNs: 0, payload }
    // Of a bounded owner too: dead letters stay, so those of one user could fill their file, and then the writer waits.
    const decoded = isStrict || boundedOwner !== undefined ? checkDecodable(decoder, message) : undefined
    return { message: isRetained === true ? { ...message, headers: [retainHeader] } : message, decoded }
  }

  /**
   * @param decoded those of the messages that were decoded: all of a bounded owner
   * @param stored what to resolve with
   * @throws as `Publisher.publish`
   */
  function append<Result>(
    { publisher, boundedOwner }: Sender,
    messages: readonly OutgoingMessage[],
    decoded: readonly Decoded[],
    stored: (positions: LogPosition[]) => Result,
  ): Promise<Result> {
    if (publisher === null) throw new HttpError('forbidden')
    const { channel } = messages[0]!
    quotas?.take(channel, publisher, messages.length)
    let giveBackBytes: (() => void) | undefined
    function giveBack(error: unknown): never {
      quotas?.giveBack(channel, publisher!, messages.length)
      giveBackBytes?.()
      throw error
    }
    try {
      if (boundedOwner !== undefined) giveBackBytes = bounds.take(boundedOwner, decoded)
    } catch (error) {
      giveBack(error)
    }
    return log.append(messages, whole).then(stored, giveBack)
  }

  function accepted({ channel, publisher, payload }: OutgoingMessage, position: LogPosition): Published {
    const { partition, offset } = position
    metrics.accepted(payload.length)
    const id = `${logLabel()}-${partition}-${offset}`
    arrivals?.accepted(publisher, channel, id, position)
    return { id, log: log.id, partition, offset }
  }

  return {
    async count({ channel, publisher }) {
      if (publisher === null) throw new HttpError('forbidden')
      quotas?.take(channel, publisher)
      return undefined
    },
    check({ channel, subtopic, contentType, publisher, boundedOwner }) {
      if (contentType === 'application/json') checkFormat(subtopic)
      if (publisher !== null) quotas?.check(channel, publisher)
      if (boundedOwner !== undefined) bounds.check(boundedOwner)
    },
    publish(publication) {
      try {
        const { message, decoded } = checked(publication)
        return append(publication, [message], decoded === undefined ? [] : [decoded], ([position]) => accepted(message, position!))
      } catch (error) {
        return Promise.reject(error)
      }
    },
    async publishAll(sender, publications) {
      const messages: OutgoingMessage[] = []
      const allDecoded: Decoded[] = []
      let bytes = 0
      for (const publication of publications) {
        try {
          const { message, decoded } = checked(publication)
          messages.push(message)
          if (decoded !== undefined) allDecoded.push(decoded)
        } catch (error) {
          throw publication.line === undefined ? error : inLine(error, publication.line)
        }
        bytes += publication.payload.length
        if (bytes < turnBytes) continue
        bytes = 0
        await setImmediate()
      }
      if (messages.length === 0) throw new HttpError('malformed_request', 'the body has no message: send each in a line of its own')
      return append(sender, messages, allDecoded, positions => positions.map((position, at) => accepted(messages[at]!, position)))
    },
  }
}

/**
 * Who sends a message, from the answer of the access control.
 *
 * @param unauthenticated says what to do about a credential that is not valid
 * @throws HttpError `unauthenticated`; `too_many_requests` for one that was used too often
 */
export function senderOf(answer: Access, { scheme }: Pick<Credential, 'scheme'>, unauthenticated: string): Sender {
  if (answer.allowed) return { publisher: answer.publisher, boundedOwner: answer.isBounded === true ? answer.owner : undefined }
  if (answer.reason === 'limited') throw limitedError(answer, scheme)
  if (answer.reason === 'unauthenticated') throw new HttpError('unauthenticated', unauthenticated)
  return { publisher: null, boundedOwner: undefined }
}

/** The last part of the subtopic names the format of a JSON message; SenML is stored under `messages`. */
function checkFormat(subtopic: string): void {
  if (subtopic === '') {
    throw malformedSubtopic(
      'a JSON document needs a subtopic, whose last part is its format: publish to /channels/<channel>/messages/<format>, or send SenML, an array of records, as application/senml+json',
    )
  }
  if (subtopic === senmlFormat || subtopic.endsWith(`.${senmlFormat}`)) {
    throw malformedSubtopic('a JSON subtopic cannot end in "messages", which is reserved for SenML: choose another last part')
  }
}

function malformedSubtopic(detail: string): HttpError {
  return new HttpError('malformed_request', detail, { faults: [{ pointer: '/path/subtopic', detail }] })
}
