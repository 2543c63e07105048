// The Kafka client, as load.ts loads it.

export * from '@platformatic/kafka'
