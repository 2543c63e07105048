// The embedded log and its source: the log of `up`, in one SQLite file per topic.

export { type EmbeddedLog, type EmbeddedLogOptions, openEmbeddedLog } from './log.ts'
export { type EmbeddedSourceOptions, openEmbeddedSource } from './source.ts'
