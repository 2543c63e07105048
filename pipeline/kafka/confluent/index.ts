// The encoding `confluent`, for those outside of its folder.

export { type EncodingOptions, messagesReader, messagesSource, openMessagesLog } from './encoding.ts'
