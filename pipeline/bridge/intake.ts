// Appends the messages of a broker to the log: many at once, in the order of arrival, and until the log has them.
//
// While Kafka is away, what was taken is retried until it is stored, and nothing more is taken. So the memory is bounded by what the broker may send
// without an acknowledgement, and the rest waits there.

import { pause } from '../../config/aborting.ts'
import type { Logger } from '../../config/logger.ts'
import type { OutageReport } from '../../config/outage.ts'
import type { IngestMetrics } from '../ingest/metrics.ts'
import { type Log, MessageRefusedError, messageSize } from '../log.ts'
import type { Incoming } from './envelope.ts'

export interface Intake {
  /** Resolves with whether the message may be acknowledged: it is in the log, or can never be. Else the process stops before it could be stored. */
  take(incoming: Incoming): Promise<boolean>
  isFull(): boolean
  /** Resolves when the next message may be taken. */
  capacity(): Promise<void>
  /** Resolves when each message that was taken is in the log, or can never be, or after `signal` aborted waits for a log that is away. */
  settled(): Promise<void>
}

export interface IntakeParts {
  readonly log: Pick<Log, 'append'>
  readonly messagesMax: number
  readonly bytesMax: number
  readonly metrics: IngestMetrics
  readonly outage: OutageReport
  readonly logger: Pick<Logger, 'warn'>
  /** Aborts when nothing is to be retried any more. */
  readonly signal: AbortSignal
}

interface Held {
  readonly incoming: Incoming
  readonly answer: (isAppended: boolean) => void
}

const retryMsMin = 50
const retryMsMax = 1_000
/** Between log lines about messages that are dead letters or refused. */
const lineIntervalMs = 60_000

export function openIntake({ log, messagesMax, bytesMax, metrics, outage, logger, signal }: IntakeParts): Intake {
  let messages = 0
  let bytes = 0
  /** Of these, those that wait for a log that is away. */
  let held: Held[] = []
  let retrying: Promise<void> | undefined
  let freed = Promise.withResolvers<void>()
  const say = openSay(logger)

  const isEmpty = (): boolean => messages === 0
  const isFull = (): boolean => messages >= messagesMax || bytes >= bytesMax || retrying !== undefined

  function free(): void {
    freed.resolve()
    freed = Promise.withResolvers()
  }

  /** @throws LogUnavailableError, SystemicError */
  async function append({ message }: Incoming): Promise<void> {
    try {
      await log.append([message])
      metrics.accepted(message.payload.byteLength)
    } catch (error) {
      if (!(error instanceof MessageRefusedError)) throw error
      metrics.refused('refused')
      say('a message of the broker is refused: it is acknowledged, and lost', error.message, message.headers)
    }
  }

  function hold(incoming: Incoming): Promise<boolean> {
    return new Promise(answer => {
      held.push({ incoming, answer })
      retrying ??= retry().finally(() => {
        retrying = undefined
        free()
      })
    })
  }

  /** The first alone until the log has it, and then the others at once, in order. */
  async function retry(): Promise<void> {
    for (let waitMs = retryMsMin; held.length > 0 && !signal.aborted; ) {
      const [first, ...others] = held as [Held, ...Held[]]
      try {
        await append(first.incoming)
      } catch (error) {
        outage.failed(error, { waitMs, meanwhile: 'messages wait at the broker' })
        await pause(waitMs, signal)
        waitMs = Math.min(2 * waitMs, retryMsMax)
        continue
      }
      outage.recovered()
      waitMs = retryMsMin
      first.answer(true)
      held = held.slice(1 + others.length)
      const outcomes = await Promise.allSettled(others.map(({ incoming }) => append(incoming)))
      const isAppended = (_: Held, index: number): boolean => outcomes[index]!.status === 'fulfilled'
      for (const one of others.filter(isAppended)) one.answer(true)
      held = [...others.filter((one, index) => !isAppended(one, index)), ...held]
    }
    for (const { answer } of held) answer(false)
    held = []
  }

  return {
    async take(incoming) {
      const { message, fault } = incoming
      const size = messageSize(message)
      messages++
      bytes += size
      if (fault !== undefined) {
        metrics.refused(fault.rule)
        say('the envelope of a message of the broker cannot be read: it becomes a dead letter', fault.reason, message.headers)
      }
      const isAppended = await append(incoming).then(
        () => true,
        () => hold(incoming),
      )
      messages--
      bytes -= size
      free()
      return isAppended
    },
    isFull,
    async capacity() {
      while (isFull()) await freed.promise
    },
    async settled() {
      while (!isEmpty()) await freed.promise
    },
  }
}

/** A line a minute, with how many were left out. */
function openSay(logger: IntakeParts['logger']) {
  let saidMs = -Infinity
  let unsaid = 0
  return (what: string, reason: string, headers: Incoming['message']['headers']): void => {
    if (performance.now() - saidMs < lineIntervalMs) return void unsaid++
    const topic = headers?.find(({ key }) => key === 'mqtt-topic')?.value
    logger.warn({ topic: String(topic).slice(0, 200), ...(unsaid === 0 ? {} : { more: unsaid }) }, `${what} (${reason})`)
    saidMs = performance.now()
    unsaid = 0
  }
}
