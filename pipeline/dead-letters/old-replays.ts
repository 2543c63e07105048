// Names of what releases used that replayed through a separate topic: see reopen.ts.

/** The topic to which they appended the messages to replay. */
export function oldReplaysTopic(topic: string, writer: string): string {
  return `${topic}.replays.${writer}`
}

/** The consumer group that read it. */
export function oldReplaysGroup(writer: string): string {
  return `${writer}.replays`
}
