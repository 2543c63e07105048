// A writer that has worked on fakes, with what a verification and a trace ask: its log, its store with books, its dead letters.

import { type VerifyParts, type VerifyReport, verify } from '../../../pipeline/audit/verify.ts'
import { openDecoder } from '../../../pipeline/decode.ts'
import { openLetters } from '../../../pipeline/letters/letters.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'
import { subjectFilter } from '../../../pipeline/subject-filter.ts'
import type { StoreAudit } from '../../../sinks/audit.ts'
import type { MessageCounts } from '../../../sinks/sink.ts'
import { openFakeAudit } from '../../sinks/fake-audit.ts'
import { type FakeLog, openFakeLog } from '../fake-log.ts'
import { openFakeTopicReader } from '../fake-topic-reader.ts'
import { numbers } from '../numbers.ts'
import { defaults, makeWorld, type Settings, startWriter, type World } from '../parts.ts'

export interface Site {
  readonly world: World
  readonly replays: FakeLog
  readonly books: Map<string, MessageCounts>
  readonly parts: VerifyParts
  readonly audit: StoreAudit
  readonly letters: () => ReturnType<typeof openLetters>
  readonly verify: (more?: Partial<VerifyParts>) => Promise<VerifyReport>
}

/** The log with these messages, all of which the writer has passed. */
export async function siteWith(messages: readonly OutgoingMessage[], settings: Settings & { deletedBelow?: number } = {}): Promise<Site> {
  const world = makeWorld()
  await world.log.append(messages)
  if (settings.deletedBelow !== undefined) world.log.deleteBelow(settings.deletedBelow)
  const { writer } = await startWriter(world, settings)
  while ((world.log.committed.get('writer') ?? 0) < messages.length) await new Promise(resolve => setTimeout(resolve, 2))
  await writer.stop()
  const books = new Map([['1/0', writer.counts().get(0)!]])
  const audit = openFakeAudit(world.store, books)
  const replays = openFakeLog('messages.replays.writer-1')
  const parts: VerifyParts = {
    reader: openFakeTopicReader(world.log),
    audit,
    lettersOf: async () => openFakeTopicReader(world.letters),
    replaysOf: async () => openFakeTopicReader(replays),
    decoder: decoderFor(settings.subjects),
  }
  return {
    world,
    replays,
    books,
    parts,
    audit,
    letters: () =>
      openLetters({
        reader: openFakeTopicReader(world.letters),
        log: world.letters,
        replays: async () => replays,
      }),
    verify: more => verify({ ...parts, ...more }),
  }
}

export function decoderFor(subjects = ['channels.>']) {
  return openDecoder({
    transformer: numbers,
    subscribed: subjectFilter(subjects),
    message: defaults.message,
    clock: () => 1_700_000_100_000,
  })
}
