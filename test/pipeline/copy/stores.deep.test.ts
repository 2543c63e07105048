// Copies between all stores, also of one kind; stores.slow.test.ts has the others. A node of Cassandra takes seconds to start, and more to create tables.

import { copyConformance } from '../../conformance/copy.ts'
import { describeWithCassandra } from '../../servers/cassandra.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { cassandraStore, influxStore, mongoStore, postgresStore } from './stores.ts'

describeWithPostgres('with a server of PostgreSQL', postgres => {
  describeWithMongo('and FerretDB', mongo => {
    describeWithInflux('and InfluxDB', influx => {
      describeWithCassandra('and Cassandra', cassandra => {
        const stores = {
          PostgreSQL: () => postgresStore(postgres),
          MongoDB: () => mongoStore(mongo),
          InfluxDB: () => influxStore(influx),
          Cassandra: () => cassandraStore(cassandra),
        }
        const shown = new Set(['PostgreSQL to PostgreSQL', 'PostgreSQL to MongoDB', 'MongoDB to PostgreSQL'])
        for (const [source, openSource] of Object.entries(stores)) {
          for (const [target, openTarget] of Object.entries(stores)) {
            const pair = `${source} to ${target}`
            if (!shown.has(pair)) copyConformance(`from ${pair}`, openSource, openTarget, false)
          }
        }
      })
    })
  })
})
