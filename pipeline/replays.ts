// The second, small flow of a writer: replayed messages, stored at the position that they had at first.
//
// It is the same flow over another topic, `<topic>.replays.<writer>`. Three of its parts are wrapped here and handed to the same
// writer: the source remembers the cursor of the message at hand, so that the transformer can tell the batch the first position by the
// message's headers; and a message that fails again becomes the dead letter that it was, with its first position and no other headers.

import { DecodeError } from '../transformers/decode-error.ts'
import type { Envelope } from '../transformers/envelope.ts'
import type { Transformer } from '../transformers/transformer.ts'
import type { DeadLetter, DeadLetters } from './dead-letters.ts'
import { replayedOf } from './letters/headers.ts'
import type { RawCursor, RawRun, Source } from './source.ts'

export interface ReplayParts {
  /** Of the topic of replays. */
  readonly source: Source
  readonly transformer: Transformer
  /** Of the writer: its `topic` is that of the messages, not that of the replays. */
  readonly deadLetters: DeadLetters
  /** The number under which the store knows the topic of replays: `sink.logNumber` of this flow's sink. */
  readonly logNumber: number
}

/** The topic in which a writer's replays lie, and that of its dead letters. */
export function replaysTopic(topic: string, writer: string): string {
  return `${topic}.replays.${writer}`
}
export function deadLettersTopic(topic: string, writer: string): string {
  return `${topic}.dead-letters.${writer}`
}

/** The consumer group of a writer's second flow; that of the first has the writer's name. */
export function replaysGroup(writer: string): string {
  return `${writer}.replays`
}

/** The parts for a writer of replays. One worker uses them. */
export function replaying({
  source,
  transformer,
  deadLetters,
  logNumber,
}: ReplayParts): Pick<ReplayParts, 'source' | 'transformer' | 'deadLetters'> {
  // A cursor overwrites one message at each step, so that the message stands for its cursor.
  const cursors = new WeakMap<Envelope, RawCursor>()

  function watched(run: RawRun): RawRun {
    return {
      ...run,
      cursor() {
        const cursor = run.cursor()
        cursors.set(cursor.message, cursor)
        return cursor
      },
    }
  }

  return {
    source: {
      async *runs(signal, onStart, onShare) {
        for await (const run of source.runs(signal, onStart, onShare)) yield watched(run)
      },
      bounds: partition => source.bounds(partition),
      ends: () => source.ends(),
      commit: positions => source.commit(positions),
      close: () => source.close(),
    },

    transformer: {
      decode(payload, envelope, batch) {
        const replayed = replayedOf(cursors.get(envelope)?.headers() ?? [])
        if (replayed === undefined) throw notReplayed()
        batch.replayOf(replayed.original)
        transformer.decode(payload, envelope, batch)
      },
    },

    deadLetters: {
      put: letters => deadLetters.put(asAtFirst(letters, logNumber)),
    },
  }
}

/** The letter of a replayed message names the place where it lay at first, and has the headers that it had there. */
function* asAtFirst(letters: Iterable<DeadLetter>, logNumber: number): Generator<DeadLetter, void, undefined> {
  for (const letter of letters) {
    const replayed = replayedOf(letter.message.headers ?? [])
    if (replayed === undefined) yield { ...letter, log: logNumber }
    else yield { ...letter, ...replayed.original, message: { ...letter.message, headers: replayed.headers } }
  }
}

function notReplayed(): DecodeError {
  return new DecodeError('not-a-replay', 'the message does not say where it lay before it was replayed', {
    hint: 'put nothing into this topic: `sluice dlq replay` does',
  })
}
