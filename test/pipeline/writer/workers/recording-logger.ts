// A logger whose lines a test reads.

import { type Logger, pino } from 'pino'

export interface RecordingLogger {
  readonly logger: Logger
  /** So far, in order. */
  readonly lines: () => Readonly<Record<string, unknown>>[]
}

export function recordingLogger(): RecordingLogger {
  const written: string[] = []
  return {
    logger: pino({ level: 'debug' }, { write: (line: string) => void written.push(line) }),
    lines: () => written.map(line => JSON.parse(line) as Record<string, unknown>),
  }
}
